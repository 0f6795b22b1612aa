"""An image arrives byte for byte, with everything that signs it, and its signatures hold where it arrives."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hand_made_archives import GZIP, PLAIN
from private_sigstore import PrivateSigstore, bundle_referrer, fallback_index, fallback_tag
from registries import misbehaviour
from registries.artifact import Artifact
from registries.hostile import HONEST, HostileRegistry
from registries.memory import digest_of
from served_images import (
    HELLO,
    REPOSITORY,
    client_of,
    extract,
    files_of,
    image_of,
    index_of,
    policies_of,
    put,
    sign_v2,
    sign_v3,
)

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.extraction import ExtractionRequest
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.publishing.copy import CopyResult, copy_image
from accelkit.kernelcache.signatures.findings import UnverifiedError

CI = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
IMAGE = image_of([(gzip.compress(HELLO, mtime=0), GZIP)])
SBOM = "application/spdx+json"


@pytest.fixture(params=[True, False], ids=["referrers API", "fallback tag"])
def target(request: pytest.FixtureRequest) -> Iterator[HostileRegistry]:
    """A registry with the referrers API, and one without."""
    with HostileRegistry(referrers=request.param) as registry:
        yield registry


@pytest.fixture
def other() -> Iterator[HostileRegistry]:
    with HostileRegistry() as registry:
        yield registry


async def copy(
    source: HostileRegistry, target: HostileRegistry, image: Reference, *, tag: str = "v1", signatures: bool = True
) -> CopyResult:
    async with client_of(source) as reading, client_of(target) as writing:
        where = Reference(target.host, "mirror/app", tag)
        return await copy_image(reading, image, writing, where, signatures=signatures)


def at(registry: HostileRegistry, digest: str) -> Reference:
    return Reference(registry.host, "mirror/app", None, digest)


async def test_image_is_copied_byte_for_byte(hostile_registry: HostileRegistry, other: HostileRegistry) -> None:
    done = await copy(hostile_registry, other, put(hostile_registry, IMAGE))
    assert done == CopyResult(IMAGE.digest, sum(map(len, IMAGE.blobs)), manifests=1)
    assert other.honest.manifest("mirror/app", "v1") == IMAGE.manifest
    assert [other.honest.blob("mirror/app", digest_of(blob)) for blob in IMAGE.blobs] == list(IMAGE.blobs)


@pytest.mark.parametrize("sign", ["v2", "v3"])
async def test_copied_signatures_are_valid_at_target(
    hostile_registry: HostileRegistry, target: HostileRegistry, tmp_path: Path, sigstore: PrivateSigstore, sign: str
) -> None:
    image = put(hostile_registry, IMAGE)
    if sign == "v2":
        sign_v2(hostile_registry, sigstore.identity(CI), image.digest)
    else:
        sign_v3(hostile_registry, sigstore.identity(CI), IMAGE)
    assert (await copy(hostile_registry, target, image)).signatures == 1
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    done = await extract(
        target, ExtractionRequest(image=at(target, image.digest), base=tmp_path / "out", policies=policies)
    )
    assert files_of(done.place.cache) == {"K/k.json": b"{}"}


async def test_copy_without_signatures_does_not_request_signatures(
    hostile_registry: HostileRegistry, other: HostileRegistry, tmp_path: Path, sigstore: PrivateSigstore
) -> None:
    image = put(hostile_registry, IMAGE)
    sign_v2(hostile_registry, sigstore.identity(CI), image.digest)
    await copy(hostile_registry, other, image, signatures=False)
    assert hostile_registry.received("GET", r".*/(referrers/.*|manifests/.*\.sig)") == []
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    with pytest.raises(UnverifiedError):
        await extract(other, ExtractionRequest(image=at(other, image.digest), base=tmp_path / "out", policies=policies))


async def test_bundles_listed_only_by_fallback_tag_are_copied(
    target: HostileRegistry, sigstore: PrivateSigstore
) -> None:
    with HostileRegistry(referrers=False) as source:
        image = put(source, IMAGE)
        bundle = sign_v3(source, sigstore.identity(CI), IMAGE)
        put(source, fallback_index([bundle]), fallback_tag(IMAGE.digest))
        assert (await copy(source, target, image)).signatures == 1
    assert target.honest.manifest("mirror/app", bundle.digest) == bundle.manifest


async def test_fallback_tag_of_target_keeps_existing_entries(
    hostile_registry: HostileRegistry, sigstore: PrivateSigstore
) -> None:
    image = put(hostile_registry, IMAGE)
    bundles = [sign_v3(hostile_registry, sigstore.identity(CI), IMAGE) for _ in range(2)]
    there = bundle_referrer(b"{}", IMAGE)
    with HostileRegistry(referrers=False) as target:
        tag = fallback_tag(IMAGE.digest)
        target.put_manifest("mirror/app", tag, fallback_index([there]).manifest, fallback_index([]).media_type)
        for _ in range(2):
            await copy(hostile_registry, target, image)
        listed = json.loads(target.honest.manifest("mirror/app", tag) or b"")["manifests"]
    assert sorted(each["digest"] for each in listed) == sorted(each.digest for each in (there, *bundles))
    assert {each["artifactType"] for each in listed} == {"application/vnd.dev.sigstore.bundle.v0.3+json"}


async def test_referrers_that_are_not_signatures_are_not_copied(
    hostile_registry: HostileRegistry, other: HostileRegistry
) -> None:
    image = put(hostile_registry, IMAGE)
    sbom = bundle_referrer(b"{}", IMAGE, artifact_type=SBOM)
    put(hostile_registry, sbom, None)
    assert (await copy(hostile_registry, other, image)).signatures == 0
    assert other.honest.manifest("mirror/app", sbom.digest) is None


async def test_unreadable_signature_list_fails_copy_before_tag_is_written(
    hostile_registry: HostileRegistry, other: HostileRegistry
) -> None:
    image = put(hostile_registry, IMAGE)
    hostile_registry.on("GET", ".*/referrers/.*", misbehaviour.answering(200, b"[]"))
    with pytest.raises(CacheError, match="the image was copied, but its signatures cannot be listed"):
        await copy(hostile_registry, other, image)
    assert other.honest.manifest("mirror/app", IMAGE.digest) == IMAGE.manifest
    assert other.honest.manifest("mirror/app", "v1") is None


def members() -> tuple[list[Artifact], Artifact]:
    images = [image_of([(HELLO, PLAIN)], architecture=name) for name in (read_host_architecture(), "s390x")]
    platforms = [{"os": "linux", "architecture": name} for name in (read_host_architecture(), "s390x")]
    return images, index_of(*zip(images, platforms, strict=True))


async def test_index_is_copied_with_all_members(
    hostile_registry: HostileRegistry, target: HostileRegistry, tmp_path: Path, sigstore: PrivateSigstore
) -> None:
    images, index = members()
    for each in images:
        put(hostile_registry, each, None)
    named = put(hostile_registry, index)
    sign_v2(hostile_registry, sigstore.identity(CI), index.digest)
    done = await copy(hostile_registry, target, named)
    assert (done.manifests, done.signatures) == (4, 1)
    for each in (*images, index):
        assert target.honest.manifest("mirror/app", each.digest) == each.manifest
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    await extract(target, ExtractionRequest(image=at(target, index.digest), base=tmp_path / "out", policies=policies))


@pytest.mark.parametrize("sign", ["v2", "v3"])
async def test_signatures_of_index_members_are_copied(
    hostile_registry: HostileRegistry, target: HostileRegistry, tmp_path: Path, sigstore: PrivateSigstore, sign: str
) -> None:
    images, index = members()
    nested = index_of((index, None), (images[0], None))
    for each in (*images, index):
        put(hostile_registry, each, None)
    for each in images:
        if sign == "v2":
            sign_v2(hostile_registry, sigstore.identity(CI), each.digest)
        else:
            sign_v3(hostile_registry, sigstore.identity(CI), each)
    assert (await copy(hostile_registry, target, put(hostile_registry, nested))).signatures == 2
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    done = await extract(
        target, ExtractionRequest(image=at(target, images[0].digest), base=tmp_path / "out", policies=policies)
    )
    assert done.fresh


async def test_copy_fails_if_index_member_is_missing(hostile_registry: HostileRegistry, other: HostileRegistry) -> None:
    images, index = members()
    put(hostile_registry, images[0], None)
    with pytest.raises(RegistryError):
        await copy(hostile_registry, other, put(hostile_registry, index))
    assert other.honest.manifest("mirror/app", "v1") is None


async def test_indexes_nested_beyond_manifest_limit_are_rejected(
    hostile_registry: HostileRegistry, other: HostileRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelkit.kernelcache.publishing.copy.MAX_MANIFESTS", 20)
    inner = IMAGE
    for _ in range(25):
        put(hostile_registry, inner, None)
        inner = index_of((inner, None))
    with pytest.raises(CacheError, match="more than 20 manifests"):
        await copy(hostile_registry, other, put(hostile_registry, inner))
    assert other.received("PUT", ".*") == []


async def test_copy_within_one_registry_mounts_blobs(hostile_registry: HostileRegistry) -> None:
    image = put(hostile_registry, IMAGE)
    assert (await copy(hostile_registry, hostile_registry, image)).uploaded_bytes == 0
    assert hostile_registry.received("GET", ".*/blobs/.*") == []
    mounts = [each.query for each in hostile_registry.received("POST", ".*/blobs/uploads/")]
    assert {(each["from"], each["mount"]) for each in mounts} == {(REPOSITORY, digest_of(blob)) for blob in IMAGE.blobs}


async def test_blobs_are_uploaded_if_registry_does_not_mount(hostile_registry: HostileRegistry) -> None:
    image = put(hostile_registry, IMAGE)
    hostile_registry.on("POST", ".*/blobs/uploads/", forgetting_mounts)
    assert (await copy(hostile_registry, hostile_registry, image)).uploaded_bytes == sum(map(len, IMAGE.blobs))
    assert hostile_registry.honest.manifest("mirror/app", "v1") == IMAGE.manifest


async def forgetting_mounts(request):
    return await request.app[HONEST].answer(request.clone(rel_url=request.rel_url.with_query({})))


async def test_second_copy_sends_no_blob(hostile_registry: HostileRegistry, other: HostileRegistry) -> None:
    image = put(hostile_registry, IMAGE)
    await copy(hostile_registry, other, image)
    hostile_registry.requests.clear()
    assert (await copy(hostile_registry, other, image)).uploaded_bytes == 0
    assert hostile_registry.received("GET", ".*/blobs/.*") == []


async def test_interrupted_download_from_source_is_resumed(
    hostile_registry: HostileRegistry, other: HostileRegistry
) -> None:
    body = HELLO + bytes(200_000)
    big = image_of([(body, PLAIN)])
    image = put(hostile_registry, big)
    hostile_registry.on("GET", f".*/blobs/{digest_of(body)}", misbehaviour.cut_after(70_000))
    await copy(hostile_registry, other, image)
    assert other.honest.blob("mirror/app", digest_of(body)) == body
    assert (
        hostile_registry.received("GET", f".*/blobs/{digest_of(body)}")[-1].headers["Range"].startswith("bytes=70000-")
    )


async def test_blob_changed_by_source_is_not_copied(hostile_registry: HostileRegistry, other: HostileRegistry) -> None:
    image = put(hostile_registry, IMAGE)
    layer = IMAGE.blobs[1]
    hostile_registry.on("GET", f".*/blobs/{digest_of(layer)}", misbehaviour.changed(bytes(len(layer))))
    with pytest.raises(RegistryError):
        await copy(hostile_registry, other, image)
    assert other.honest.manifest("mirror/app", "v1") is None
    assert other.honest.blob("mirror/app", digest_of(layer)) is None


async def test_a_target_without_a_tag_is_written_by_digest(
    hostile_registry: HostileRegistry, other: HostileRegistry
) -> None:
    image = put(hostile_registry, IMAGE)
    await copy(hostile_registry, other, image, tag="")
    assert other.honest.manifest("mirror/app", image.digest) == IMAGE.manifest
    assert [each.path for each in other.received("PUT", ".*/manifests/.*")] == [
        f"/v2/mirror/app/manifests/{image.digest}"
    ]


async def test_target_with_different_digest_is_rejected_before_writing(
    hostile_registry: HostileRegistry, other: HostileRegistry
) -> None:
    image = put(hostile_registry, IMAGE)
    async with client_of(hostile_registry) as reading, client_of(other) as writing:
        where = Reference(other.host, "mirror/app", "v1", "sha256:" + "0" * 64)
        with pytest.raises(CacheError, match="cannot be written as"):
            await copy_image(reading, image, writing, where)
    assert other.requests == []
