"""What refers to an image is asked in both places, and what could not be read is not taken for nothing."""

from __future__ import annotations

import json

import pytest
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.memory import digest_of
from registries.visiting import REPOSITORY, at, image, manifest, visiting

from accelkit.errors import CacheError
from accelkit.kernelcache.oci.documents import OCI_INDEX, OCI_MANIFEST

REFERRERS = f"/v2/{REPOSITORY}/referrers/.*"
TAGGED = f"/v2/{REPOSITORY}/manifests/sha256-.*"
SUBJECT = digest_of(manifest())
OURS = {"mediaType": OCI_MANIFEST, "digest": SUBJECT, "size": len(manifest())}
FALLBACK = SUBJECT.replace(":", "-")


def entry(name: str) -> dict[str, object]:
    return {"mediaType": OCI_MANIFEST, "digest": digest_of(name.encode()), "size": 1, "artifactType": "text/x"}


def index(*names: str) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry(n) for n in names]}).encode()


def digests(found) -> set[str]:
    return {descriptor.digest for descriptor in found.descriptors}


def named(*names: str) -> set[str]:
    return {digest_of(name.encode()) for name in names}


@pytest.fixture
def registry(registry):
    image(registry, "v1")
    return registry


async def asked(registry):
    async with visiting(registry, attempts=2) as client:
        return await client.list_referrers(at(registry, SUBJECT))


async def test_referrers_api_is_queried(registry):
    digest = image(registry, artifactType="text/x", subject=OURS, annotations={"a": "b"})
    found = await asked(registry)
    (descriptor,) = found.descriptors
    assert (descriptor.digest, descriptor.artifact_type, descriptor.annotations) == (digest, "text/x", {"a": "b"})
    assert found.problems == ()


async def test_image_without_referrers_has_empty_list_without_problems(registry):
    found = await asked(registry)
    assert (found.descriptors, found.problems) == ((), ())


@pytest.mark.parametrize("status", [400, 404, 405, 406, 501])
async def test_fallback_tag_is_used_if_referrers_api_is_unsupported(registry, status):
    registry.on("GET", REFERRERS, misbehaviour.failing(status))
    registry.put_manifest(REPOSITORY, FALLBACK, index("a"), OCI_INDEX)
    found = await asked(registry)
    assert (digests(found), found.problems) == (named("a"), ())
    assert len(registry.received("GET", REFERRERS)) == 1


async def test_fallback_tag_is_read_if_referrers_api_list_is_empty(registry):
    registry.put_manifest(REPOSITORY, FALLBACK, index("a"), OCI_INDEX)
    assert digests(await asked(registry)) == named("a")


async def test_referrers_in_both_lists_are_returned_once(registry):
    registry.on("GET", REFERRERS, misbehaviour.answering(200, index("a", "b"), OCI_INDEX))
    registry.put_manifest(REPOSITORY, FALLBACK, index("b", "c", "c"), OCI_INDEX)
    found = await asked(registry)
    assert (len(found.descriptors), digests(found)) == (3, named("a", "b", "c"))


async def test_all_pages_of_referrers_are_read(registry):
    pages = misbehaviour.paged_referrers([entry(name) for name in "abcde"], page=2)
    registry.on("GET", REFERRERS, pages)
    found = await asked(registry)
    assert (digests(found), found.problems) == (named(*"abcde"), ())


async def test_endless_pages_are_reported_and_read_entries_are_returned(registry):
    pages = misbehaviour.paged_referrers([entry(name) for name in "abc"], page=1, endlessly=True)
    registry.on("GET", REFERRERS, pages)
    found = await asked(registry)
    assert digests(found) == named(*"abc")
    assert "more than 50 pages" in found.problems[0].message


async def test_missing_page_is_reported_as_problem(registry):
    pages = misbehaviour.paged_referrers([entry(name) for name in "ab"], page=1)
    registry.on(
        "GET", REFERRERS, lambda request: misbehaviour.failing(404)(request) if request.query else pages(request)
    )
    found = await asked(registry)
    assert digests(found) == named("a")
    assert "HTTP 404" in found.problems[0].message


async def test_next_page_on_another_host_is_reported_and_not_requested(registry):
    with HostileRegistry() as other:
        headers = {"Link": f'<{other.url}/v2/{REPOSITORY}/referrers/{SUBJECT}>; rel="next"'}
        registry.on("GET", REFERRERS, misbehaviour.answering(200, index("a"), OCI_INDEX, headers))
        async with visiting(registry, other) as client:
            found = await client.list_referrers(at(registry, SUBJECT))
        assert other.requests == []
    assert digests(found) == named("a")
    assert "another host" in found.problems[0].message


async def test_total_size_of_referrer_pages_is_limited(registry):
    padded = json.dumps({**json.loads(index("a")), "annotations": {"padding": "a" * 3_900_000}}).encode()
    headers = {"Link": f'</v2/{REPOSITORY}/referrers/{SUBJECT}>; rel="next"'}
    registry.on("GET", REFERRERS, misbehaviour.answering(200, padded, OCI_INDEX, headers))
    found = await asked(registry)
    assert digests(found) == named("a")
    assert "longer than" in found.problems[0].message
    assert len(registry.received("GET", REFERRERS)) == 5


@pytest.mark.parametrize("link", ["<https://[>; rel=next", "<https://r.io:99999/>; rel=next", "<file:///x>; rel=next"])
async def test_invalid_next_page_link_is_reported_as_problem(registry, link):
    registry.on("GET", REFERRERS, misbehaviour.answering(200, index("a"), OCI_INDEX, {"Link": link}))
    (problem,) = (await asked(registry)).problems
    assert "not a valid HTTP URL" in problem.message or "invalid link to the next page" in problem.message


async def test_unrelated_link_header_is_ignored(registry):
    headers = {"Link": '<https://docs.example.com>; rel="help", rubbish'}
    registry.on("GET", REFERRERS, misbehaviour.answering(200, index("a"), OCI_INDEX, headers))
    found = await asked(registry)
    assert (digests(found), found.problems) == (named("a"), ())


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{}", b"[" * 100_000, manifest(), index("a").replace(b"sha256", b"md5")]
)
async def test_malformed_api_list_is_reported_and_fallback_tag_is_used(registry, body):
    registry.on("GET", REFERRERS, misbehaviour.answering(200, body))
    registry.put_manifest(REPOSITORY, FALLBACK, index("a"), OCI_INDEX)
    found = await asked(registry)
    assert digests(found) == named("a")
    assert len(found.problems) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_denied_referrers_list_is_reported_as_problem(registry, status):
    registry.on("GET", REFERRERS, misbehaviour.failing(status))
    found = await asked(registry)
    assert f"HTTP {status}" in found.problems[0].message


@pytest.mark.parametrize("body", [manifest(), b"rubbish"])
async def test_invalid_fallback_tag_is_reported_and_api_list_is_used(registry, body):
    digest = image(registry, artifactType="text/x", subject=OURS)
    registry.put_manifest(REPOSITORY, FALLBACK, body, OCI_MANIFEST)
    found = await asked(registry)
    assert digests(found) == {digest}
    assert len(found.problems) == 1


@pytest.mark.parametrize(("place", "shown"), [(REFERRERS, "tagged"), (TAGGED, "listed")])
async def test_failing_list_is_reported_and_remaining_list_is_used(registry, place, shown):
    known = {"listed": image(registry, artifactType="text/x", subject=OURS), "tagged": digest_of(b"tagged")}
    registry.put_manifest(REPOSITORY, FALLBACK, index("tagged"))
    registry.on("GET", place, misbehaviour.failing(503))
    found = await asked(registry)
    assert digests(found) == {known[shown]}
    assert [(each.status, each.retryable) for each in found.problems] == [(503, True)]


async def test_referrers_of_mirrors_and_registry_are_merged(registry, mirror):
    ours = image(registry, artifactType="text/x", subject=OURS)
    theirs = image(mirror, artifactType="text/y", subject=OURS)
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        found = await client.list_referrers(at(registry, SUBJECT))
    assert (digests(found), found.problems) == ({ours, theirs}, ())


async def test_failing_registry_is_reported_and_mirror_referrers_are_used(registry, mirror):
    theirs = image(mirror, artifactType="text/y", subject=OURS)
    registry.on("GET", ".*", misbehaviour.failing(503))
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        found = await client.list_referrers(at(registry, SUBJECT))
    assert digests(found) == {theirs}
    assert {each.retryable for each in found.problems} == {True}


async def test_failing_mirror_is_ignored_if_registry_responds(registry, mirror):
    mirror.on("GET", ".*", misbehaviour.failing(503))
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        found = await client.list_referrers(at(registry, SUBJECT))
    assert (found.descriptors, found.problems) == ((), ())


async def test_listing_referrers_requires_digest(registry):
    async with visiting(registry) as client:
        with pytest.raises(CacheError, match="without a digest"):
            await client.list_referrers(at(registry, "v1"))
