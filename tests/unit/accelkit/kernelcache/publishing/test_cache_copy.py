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
from accelkit.kernelcache.extraction import ExtractionRequest, ExtractionResult
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


class Copying:
    """A registry with images to copy, and a policy that judges them where they arrive."""

    def __init__(self, source: HostileRegistry, sigstore: PrivateSigstore, folder: Path) -> None:
        self.source, self._signer, self._folder = source, sigstore.identity(CI), folder
        self.policies = policies_of(sigstore, folder / "policies", subject=CI)

    def put(self, artifact: Artifact = IMAGE, tag: str | None = "v1") -> Reference:
        return put(self.source, artifact, tag)

    def sign(self, artifact: Artifact = IMAGE, form: str = "v2") -> Artifact | None:
        if form == "v2":
            return sign_v2(self.source, self._signer, artifact.digest)
        return sign_v3(self.source, self._signer, artifact)

    async def copy(
        self, target: HostileRegistry, image: Reference, *, tag: str = "v1", digest: str | None = None, **how: bool
    ) -> CopyResult:
        async with client_of(self.source) as reading, client_of(target) as writing:
            return await copy_image(reading, image, writing, Reference(target.host, "mirror/app", tag, digest), **how)

    async def extract(self, target: HostileRegistry, digest: str) -> ExtractionResult:
        """Extract what arrived, as far as the policy allows."""
        image = Reference(target.host, "mirror/app", None, digest)
        order = ExtractionRequest(image=image, base=self._folder / "out", policies=self.policies)
        return await extract(target, order)


@pytest.fixture
def copying(hostile_registry: HostileRegistry, sigstore: PrivateSigstore, tmp_path: Path) -> Copying:
    return Copying(hostile_registry, sigstore, tmp_path)


async def test_an_image_arrives_byte_for_byte_and_its_blobs_once(copying, other) -> None:
    image = copying.put()
    done = await copying.copy(other, image)
    assert done == CopyResult(IMAGE.digest, sum(map(len, IMAGE.blobs)), manifests=1)
    assert other.honest.manifest("mirror/app", "v1") == IMAGE.manifest
    assert [other.honest.blob("mirror/app", digest_of(blob)) for blob in IMAGE.blobs] == list(IMAGE.blobs)
    copying.source.requests.clear()
    assert (await copying.copy(other, image)).uploaded_bytes == 0
    assert copying.source.received("GET", ".*/blobs/.*") == []


@pytest.mark.parametrize("form", ["v2", "v3"])
async def test_signatures_hold_at_the_target(copying, target, form: str) -> None:
    image = copying.put()
    copying.sign(form=form)
    assert (await copying.copy(target, image)).signatures == 1
    assert files_of((await copying.extract(target, image.digest)).place.cache) == {"K/k.json": b"{}"}


async def test_without_signatures_none_is_asked_for(copying, other) -> None:
    image = copying.put()
    copying.sign()
    await copying.copy(other, image, signatures=False)
    assert copying.source.received("GET", r".*/(referrers/.*|manifests/.*\.sig)") == []
    with pytest.raises(UnverifiedError):
        await copying.extract(other, image.digest)


async def test_bundles_that_only_the_fallback_tag_lists_come_along(copying, target) -> None:
    with HostileRegistry(referrers=False) as copying.source:
        image, bundle = copying.put(), copying.sign(form="v3")
        copying.put(fallback_index([bundle]), fallback_tag(IMAGE.digest))
        assert (await copying.copy(target, image)).signatures == 1
    assert target.honest.manifest("mirror/app", bundle.digest) == bundle.manifest


async def test_the_fallback_tag_of_the_target_keeps_what_it_listed(copying) -> None:
    image = copying.put()
    bundles = [copying.sign(form="v3") for _ in range(2)]
    there = bundle_referrer(b"{}", IMAGE)
    with HostileRegistry(referrers=False) as target:
        tag = fallback_tag(IMAGE.digest)
        target.put_manifest("mirror/app", tag, fallback_index([there]).manifest, fallback_index([]).media_type)
        for _ in range(2):
            await copying.copy(target, image)
        listed = json.loads(target.honest.manifest("mirror/app", tag) or b"")["manifests"]
    assert sorted(each["digest"] for each in listed) == sorted(each.digest for each in (there, *bundles))
    assert {each["artifactType"] for each in listed} == {"application/vnd.dev.sigstore.bundle.v0.3+json"}


async def test_referrers_that_sign_nothing_stay(copying, other) -> None:
    image, sbom = copying.put(), bundle_referrer(b"{}", IMAGE, artifact_type=SBOM)
    copying.put(sbom, None)
    assert (await copying.copy(other, image)).signatures == 0
    assert other.honest.manifest("mirror/app", sbom.digest) is None


async def test_a_list_of_signatures_that_cannot_be_read_is_no_empty_list_and_the_tag_waits(copying, other) -> None:
    image = copying.put()
    copying.source.on("GET", ".*/referrers/.*", misbehaviour.answering(200, b"[]"))
    with pytest.raises(CacheError, match="the image was copied, but what signs it cannot be listed"):
        await copying.copy(other, image)
    assert other.honest.manifest("mirror/app", IMAGE.digest) == IMAGE.manifest
    assert other.honest.manifest("mirror/app", "v1") is None


def members() -> tuple[list[Artifact], Artifact]:
    images = [image_of([(HELLO, PLAIN)], architecture=name) for name in (read_host_architecture(), "s390x")]
    platforms = [{"os": "linux", "architecture": name} for name in (read_host_architecture(), "s390x")]
    return images, index_of(*zip(images, platforms, strict=True))


async def test_an_index_arrives_with_its_members(copying, target) -> None:
    images, index = members()
    for each in images:
        copying.put(each, None)
    named = copying.put(index)
    copying.sign(index)
    done = await copying.copy(target, named)
    assert (done.manifests, done.signatures) == (4, 1)
    for each in (*images, index):
        assert target.honest.manifest("mirror/app", each.digest) == each.manifest
    await copying.extract(target, index.digest)


@pytest.mark.parametrize("form", ["v2", "v3"])
async def test_signatures_of_members_come_along(copying, target, form: str) -> None:
    images, index = members()
    nested = index_of((index, None), (images[0], None))
    for each in (*images, index):
        copying.put(each, None)
    for each in images:
        copying.sign(each, form)
    assert (await copying.copy(target, copying.put(nested))).signatures == 2
    assert (await copying.extract(target, images[0].digest)).fresh


async def test_an_index_without_a_member_does_not_arrive(copying, other) -> None:
    images, index = members()
    copying.put(images[0], None)
    with pytest.raises(RegistryError):
        await copying.copy(other, copying.put(index))
    assert other.honest.manifest("mirror/app", "v1") is None


async def test_indexes_within_indexes_come_to_an_end(copying, other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelkit.kernelcache.publishing.copy.MAX_MANIFESTS", 20)
    inner = IMAGE
    for _ in range(25):
        copying.put(inner, None)
        inner = index_of((inner, None))
    with pytest.raises(CacheError, match="more than 20 manifests"):
        await copying.copy(other, copying.put(inner))
    assert other.received("PUT", ".*") == []


async def test_within_one_registry_blobs_are_mounted(copying) -> None:
    assert (await copying.copy(copying.source, copying.put())).uploaded_bytes == 0
    assert copying.source.received("GET", ".*/blobs/.*") == []
    mounts = [each.query for each in copying.source.received("POST", ".*/blobs/uploads/")]
    assert {(each["from"], each["mount"]) for each in mounts} == {(REPOSITORY, digest_of(blob)) for blob in IMAGE.blobs}


async def test_a_registry_that_does_not_mount_gets_the_bytes(copying) -> None:
    image = copying.put()
    copying.source.on("POST", ".*/blobs/uploads/", forgetting_mounts)
    assert (await copying.copy(copying.source, image)).uploaded_bytes == sum(map(len, IMAGE.blobs))
    assert copying.source.honest.manifest("mirror/app", "v1") == IMAGE.manifest


async def forgetting_mounts(request):
    return await request.app[HONEST].answer(request.clone(rel_url=request.rel_url.with_query({})))


async def test_an_interrupted_source_is_resumed(copying, other) -> None:
    body = HELLO + bytes(200_000)
    image = copying.put(image_of([(body, PLAIN)]))
    copying.source.on("GET", f".*/blobs/{digest_of(body)}", misbehaviour.cut_after(70_000))
    await copying.copy(other, image)
    assert other.honest.blob("mirror/app", digest_of(body)) == body
    last = copying.source.received("GET", f".*/blobs/{digest_of(body)}")[-1]
    assert last.headers["Range"].startswith("bytes=70000-")


async def test_what_the_source_changed_does_not_arrive(copying, other) -> None:
    image, layer = copying.put(), IMAGE.blobs[1]
    copying.source.on("GET", f".*/blobs/{digest_of(layer)}", misbehaviour.changed(bytes(len(layer))))
    with pytest.raises(RegistryError):
        await copying.copy(other, image)
    assert other.honest.manifest("mirror/app", "v1") is None
    assert other.honest.blob("mirror/app", digest_of(layer)) is None


async def test_a_target_without_a_tag_is_written_by_digest(copying, other) -> None:
    image = copying.put()
    await copying.copy(other, image, tag="")
    assert other.honest.manifest("mirror/app", image.digest) == IMAGE.manifest
    (written,) = other.received("PUT", ".*/manifests/.*")
    assert written.path == f"/v2/mirror/app/manifests/{image.digest}"


async def test_a_target_with_another_digest_is_refused_and_nothing_is_written(copying, other) -> None:
    image = copying.put()
    with pytest.raises(CacheError, match="cannot be written as"):
        await copying.copy(other, image, digest="sha256:" + "0" * 64)
    assert other.requests == []
