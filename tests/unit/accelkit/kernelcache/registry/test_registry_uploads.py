"""Images on their way out: sent once, sent whole, and listed beside what was there."""

from __future__ import annotations

import json
import os

import pytest
from aiohttp import web
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.memory import digest_of
from registries.visiting import REPOSITORY, at, descriptor, image, manifest, visiting

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.documents import OCI_INDEX, OCI_MANIFEST
from accelkit.kernelcache.registry import Login, RegistryCredentials

BODY = os.urandom(200_000)
BLOB = descriptor(BODY)
UPLOADS = f"/v2/{REPOSITORY}/blobs/uploads/.*"
SUBJECT = {"mediaType": OCI_MANIFEST, "digest": digest_of(manifest()), "size": len(manifest())}
FALLBACK = SUBJECT["digest"].replace(":", "-")
SIGNATURE = manifest(artifactType="text/signature", subject=SUBJECT, annotations={"a": "b"})


class Content:
    """The bytes of a blob in chunks; counts how often they are asked for."""

    def __init__(self, body: bytes = BODY) -> None:
        self.asked = 0
        self._body = body

    async def __call__(self):
        self.asked += 1
        for start in range(0, len(self._body), 65536):
            yield self._body[start : start + 65536]


async def pushed(registry, *also, content=None, mount_from=None, **settings) -> bool:
    async with visiting(registry, *also, **settings) as client:
        return await client.uploads.push_blob(at(registry), BLOB, content or Content(), mount_from=mount_from)


# Blobs


async def test_blob_is_uploaded_in_one_request(registry):
    assert await pushed(registry)
    assert registry.honest.blob(REPOSITORY, BLOB.digest) == BODY
    assert [each.method for each in registry.requests] == ["HEAD", "POST", "PUT"]
    put = registry.requests[-1]
    assert put.headers["Content-Length"] == str(len(BODY))
    assert "Transfer-Encoding" not in put.headers


async def test_existing_blob_is_not_uploaded(registry):
    registry.put_blob(REPOSITORY, BODY)
    content = Content()
    assert not await pushed(registry, content=content)
    assert ([each.method for each in registry.requests], content.asked) == (["HEAD"], 0)


async def test_a_blob_of_another_repository_is_mounted(registry):
    registry.put_blob("team/base", BODY)
    content = Content()
    assert not await pushed(registry, content=content, mount_from="team/base")
    assert (registry.honest.blob(REPOSITORY, BLOB.digest), content.asked) == (BODY, 0)


async def test_blob_is_uploaded_if_mount_fails(registry):
    assert await pushed(registry, mount_from="team/base")
    assert registry.honest.blob(REPOSITORY, BLOB.digest) == BODY


@pytest.mark.parametrize("form", ["{path}", "{url}{path}", "{path}?_state=a%2Bb%3D", "{url}{path}?_state=a%2Bb%3D&x"])
async def test_upload_accepts_relative_and_absolute_location_with_query(registry, form):
    seen = []

    async def begin(request: web.Request) -> web.Response:
        answer = await registry.honest.answer(request)
        answer.headers["Location"] = form.format(url=registry.url, path=answer.headers["Location"])
        return answer

    registry.on("PUT", UPLOADS, lambda request: seen.append(request.rel_url.raw_query_string))
    registry.on("POST", UPLOADS, begin)
    assert await pushed(registry)
    assert registry.honest.blob(REPOSITORY, BLOB.digest) == BODY
    begun = form.partition("?")[2]
    assert seen == [(begun + "&" if begun else "") + "digest=sha256%3A" + BLOB.digest[7:]]


@pytest.mark.parametrize("trouble", [misbehaviour.failing(503, times=2), misbehaviour.dropped(times=2)])
async def test_failed_upload_is_restarted_with_all_bytes(registry, trouble):
    registry.on("PUT", UPLOADS, trouble)
    content = Content()
    assert await pushed(registry, content=content)
    assert registry.honest.blob(REPOSITORY, BLOB.digest) == BODY
    assert content.asked == 3
    places = {each.path for each in registry.received("PUT", UPLOADS)}
    assert len(places) == 3, "an upload that broke off was used again"


async def test_upload_fails_after_all_attempts(registry):
    registry.on("POST", UPLOADS, misbehaviour.failing(503))
    with pytest.raises(RegistryError) as refused:
        await pushed(registry, attempts=3)
    assert refused.value.retryable
    assert len(registry.received("POST", UPLOADS)) == 3


async def test_stalled_upload_times_out(registry):
    registry.on("PUT", UPLOADS, misbehaviour.stalled())
    with pytest.raises(RegistryError, match="cannot reach"):
        await pushed(registry, timeout_seconds=0.1, attempts=1)


@pytest.mark.parametrize("body", [BODY[:-1], BODY + b"x", b""])
async def test_blob_of_wrong_length_is_not_stored_or_retried(registry, body):
    with pytest.raises(CacheError, match="than the 200000 bytes of its descriptor"):
        await pushed(registry, content=Content(body))
    assert registry.honest.blob(REPOSITORY, BLOB.digest) is None
    assert len(registry.received("POST", UPLOADS)) == 1


async def test_error_of_content_source_is_raised_unchanged(registry):
    async def content():
        yield BODY[:1000]
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await pushed(registry, content=content)


async def test_blob_with_wrong_digest_is_rejected_by_registry(registry):
    with pytest.raises(RegistryError, match="HTTP 400"):
        await pushed(registry, content=Content(b"x" * len(BODY)))


async def test_upload_without_location_header_is_rejected(registry):
    registry.on("POST", UPLOADS, misbehaviour.answering(202))
    with pytest.raises(RegistryError, match="returned no URL"):
        await pushed(registry)


async def test_upload_to_another_host_sends_no_login(registry):
    registry.on("*", "/v2/.*", misbehaviour.basic_auth("user", "password"))
    credentials = RegistryCredentials({registry.host: Login("user", "password")})
    with HostileRegistry() as storage:
        answer = web.Response(status=202, headers={"Location": f"{storage.url}/store?x=1"})
        registry.on("POST", UPLOADS, lambda r: answer if "Authorization" in r.headers else None)
        storage.on("PUT", "/store", misbehaviour.answering(201))
        assert await pushed(registry, storage, credentials=credentials)
        (put,) = storage.requests
    assert put.authorization is None
    assert put.query == {"x": "1", "digest": BLOB.digest}


async def test_upload_to_plain_http_location_is_rejected(registry):
    with HostileRegistry() as storage:
        registry.on("POST", UPLOADS, misbehaviour.answering(202, headers={"Location": f"{storage.url}/store"}))
        with pytest.raises(RegistryError, match="not HTTPS"):
            await pushed(registry)
        assert storage.requests == []


async def test_upload_sends_nothing_to_mirror(registry, mirror):
    assert await pushed(registry, mirror, mirrors={registry.host: (mirror.host,)})
    assert mirror.requests == []


# Manifests


async def wrote(registry, content=SIGNATURE, media_type=OCI_MANIFEST, version=None) -> str:
    async with visiting(registry) as client:
        return await client.uploads.push_manifest(at(registry, version), content, media_type)


async def test_manifest_is_written_under_tag_or_digest(registry):
    assert await wrote(registry, manifest(), version="v1") == digest_of(manifest())
    assert registry.honest.manifest(REPOSITORY, "v1") == manifest()
    assert await wrote(registry) == digest_of(SIGNATURE)
    assert registry.honest.manifest(REPOSITORY, digest_of(SIGNATURE)) == SIGNATURE


async def test_manifest_upload_is_retried_after_server_error(registry):
    registry.on("PUT", ".*", misbehaviour.failing(503, times=1))
    await wrote(registry, manifest(), version="v1")
    assert registry.honest.manifest(REPOSITORY, "v1") == manifest()


async def test_manifest_stored_under_different_digest_is_an_error(registry):
    registry.on("PUT", ".*", misbehaviour.lying_digest(digest_of(b"x")))
    with pytest.raises(RegistryError, match="stored"):
        await wrote(registry)


@pytest.mark.parametrize("content", [b"{}", b"rubbish"])
async def test_invalid_manifest_is_not_uploaded(registry, content):
    with pytest.raises(CacheError):
        await wrote(registry, content)
    assert registry.requests == []


async def test_manifest_is_not_written_under_wrong_digest(registry):
    with pytest.raises(CacheError, match="cannot write a manifest"):
        await wrote(registry, version=digest_of(b"another"))
    assert registry.requests == []


# The list of referrers


async def listed(registry) -> dict:
    return json.loads(registry.honest.manifest(REPOSITORY, FALLBACK) or b"null")


async def test_fallback_tag_is_not_written_if_registry_supports_referrers(registry):
    await wrote(registry)
    assert await listed(registry) is None


@pytest.fixture
def old():
    with HostileRegistry(referrers=False) as registry:
        image(registry, "v1")
        yield registry


async def test_fallback_tag_is_written_if_registry_lacks_referrers_api(old):
    digest = await wrote(old)
    entry = {"mediaType": OCI_MANIFEST, "digest": digest, "size": len(SIGNATURE)}
    assert await listed(old) == {
        "schemaVersion": 2,
        "mediaType": OCI_INDEX,
        "manifests": [{**entry, "artifactType": "text/signature", "annotations": {"a": "b"}}],
    }
    async with visiting(old) as client:
        found = await client.list_referrers(at(old, SUBJECT["digest"]))
    assert [each.digest for each in found.descriptors] == [digest]


async def test_artifact_type_of_fallback_entry_defaults_to_configuration_type(old):
    await wrote(old, manifest(subject=SUBJECT))
    (entry,) = (await listed(old))["manifests"]
    assert entry["artifactType"] == "application/vnd.oci.image.config.v1+json"


async def test_fallback_tag_keeps_existing_entries_and_annotations(old):
    theirs = {"mediaType": "text/x", "digest": digest_of(b"x"), "size": 1, "urls": ["https://x"], "data": "eA=="}
    before = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [theirs], "annotations": {"k": "v"}}
    old.put_manifest(REPOSITORY, FALLBACK, json.dumps(before).encode(), OCI_INDEX)
    digest = await wrote(old)
    after = await listed(old)
    assert after["annotations"] == {"k": "v"}
    assert after["manifests"][0] == theirs
    assert [each["digest"] for each in after["manifests"]] == [theirs["digest"], digest]


async def test_fallback_tag_lists_each_digest_once(old):
    await wrote(old)
    await wrote(old)
    assert len((await listed(old))["manifests"]) == 1


@pytest.mark.parametrize("body", [manifest(), b"rubbish"])
async def test_unreadable_fallback_tag_is_not_overwritten(old, body):
    old.put_manifest(REPOSITORY, FALLBACK, body, OCI_MANIFEST)
    with pytest.raises(CacheError):
        await wrote(old)
    assert old.honest.manifest(REPOSITORY, FALLBACK) == body


async def test_unreachable_fallback_tag_is_not_overwritten(old):
    old.on("GET", ".*/manifests/sha256-.*", misbehaviour.failing(503))
    with pytest.raises(RegistryError) as refused:
        await wrote(old)
    assert refused.value.status == 503
    assert await listed(old) is None
