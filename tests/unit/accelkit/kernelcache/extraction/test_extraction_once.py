"""A cache is extracted once, and verified as often as the policy or the tag may have changed."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hand_made_archives import GZIP, archive, file
from private_sigstore import PrivateSigstore
from registries.hostile import HostileRegistry
from served_images import (
    HELLO,
    extract,
    image_of,
    policies_of,
    put,
    put_layers,
    sign_v2,
    sign_v3,
    unsigned,
    visible,
)

from accelkit.kernelcache.extraction import ExtractionRequest, read_completed
from accelkit.kernelcache.signatures.findings import RejectionReason, UnverifiedError

BLOBS = ".*/blobs/.*"
CI = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
OTHER = "https://github.com/acme/other/.github/workflows/build.yml@refs/heads/main"


async def test_second_extraction_by_digest_sends_no_requests(hostile_registry: HostileRegistry, base: Path) -> None:
    image = put_layers(hostile_registry, [HELLO])
    first = await extract(hostile_registry, unsigned(image, base))
    hostile_registry.requests.clear()
    second = await extract(hostile_registry, unsigned(image, base))
    assert (second.fresh, second.record) == (False, first.record)
    assert hostile_registry.requests == []


async def test_second_extraction_by_tag_requests_only_the_manifest(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    image = put_layers(hostile_registry, [HELLO])
    await extract(hostile_registry, unsigned(image, base))
    hostile_registry.requests.clear()
    assert not (await extract(hostile_registry, unsigned(image.with_tag("v1"), base))).fresh
    assert [each.path for each in hostile_registry.requests] == ["/v2/team/app/manifests/v1"]


async def test_moved_tag_is_extracted_into_a_new_directory(hostile_registry: HostileRegistry, base: Path) -> None:
    first = put_layers(hostile_registry, [HELLO])
    await extract(hostile_registry, unsigned(first.with_tag("v1"), base))
    second = put_layers(hostile_registry, [archive(file("io.triton.cache/K/new.json"))])
    assert (await extract(hostile_registry, unsigned(first.with_tag("v1"), base))).place.digest == second.digest
    assert len(visible(base)) == 2


@pytest.mark.parametrize("sign", ["v2", "v3"])
async def test_signed_image_is_extracted_and_its_signer_is_recorded(
    hostile_registry: HostileRegistry, tmp_path: Path, base: Path, sigstore: PrivateSigstore, sign: str
) -> None:
    artifact = image_of([(gzip.compress(HELLO), GZIP)])
    image = put(hostile_registry, artifact)
    if sign == "v2":
        sign_v2(hostile_registry, sigstore.identity(CI), image.digest)
    else:
        sign_v3(hostile_registry, sigstore.identity(CI), artifact)
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    done = await extract(hostile_registry, ExtractionRequest(image=image, base=base, policies=policies))
    assert done.record.policy_digest.startswith(policies.digest)
    assert CI in done.record.signatures[0]


async def test_image_refused_by_policy_is_neither_downloaded_nor_written(
    hostile_registry: HostileRegistry, tmp_path: Path, base: Path, sigstore: PrivateSigstore
) -> None:
    image = put(hostile_registry, image_of([(gzip.compress(HELLO), GZIP)]))
    sign_v2(hostile_registry, sigstore.identity(OTHER), image.digest)
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    with pytest.raises(UnverifiedError) as caught:
        await extract(hostile_registry, ExtractionRequest(image=image, base=base, policies=policies))
    assert [each.reason for each in caught.value.failures] == [RejectionReason.IDENTITY_MISMATCH]
    assert len(hostile_registry.received("GET", BLOBS)) == 1  # the signature's
    assert not base.exists()


async def test_changed_policy_is_checked_again_without_new_extraction(
    hostile_registry: HostileRegistry, tmp_path: Path, base: Path, sigstore: PrivateSigstore
) -> None:
    image = put(hostile_registry, image_of([(gzip.compress(HELLO), GZIP)]))
    sign_v2(hostile_registry, sigstore.identity(CI), image.digest)
    first = policies_of(sigstore, tmp_path / "policies", subject=CI)
    done = await extract(hostile_registry, ExtractionRequest(image=image, base=base, policies=first))
    hostile_registry.requests.clear()
    second = policies_of(sigstore, tmp_path / "policies", subject=CI, name="second")
    inode = (done.place.cache / "K/k.json").stat().st_ino
    again = await extract(hostile_registry, ExtractionRequest(image=image, base=base, policies=second))
    assert not again.fresh
    assert again.record.policy_digest != done.record.policy_digest
    assert read_completed(done.place) == again.record
    assert (done.place.cache / "K/k.json").stat().st_ino == inode
    layer = json.loads(hostile_registry.honest.manifest("team/app", image.digest) or b"")["layers"][0]["digest"]
    assert hostile_registry.received("GET", f".*/blobs/{layer}") == []


async def test_extracted_cache_that_violates_the_policy_is_refused(
    hostile_registry: HostileRegistry, tmp_path: Path, base: Path, sigstore: PrivateSigstore
) -> None:
    image = put(hostile_registry, image_of([(gzip.compress(HELLO), GZIP)]))
    done = await extract(hostile_registry, unsigned(image, base))
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    with pytest.raises(UnverifiedError):
        await extract(hostile_registry, ExtractionRequest(image=image, base=base, policies=policies))
    assert read_completed(done.place) == done.record


async def test_extraction_without_policy_reuses_verified_cache(
    hostile_registry: HostileRegistry, tmp_path: Path, base: Path, sigstore: PrivateSigstore
) -> None:
    image = put(hostile_registry, image_of([(gzip.compress(HELLO), GZIP)]))
    sign_v2(hostile_registry, sigstore.identity(CI), image.digest)
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI)
    first = await extract(hostile_registry, ExtractionRequest(image=image, base=base, policies=policies))
    hostile_registry.requests.clear()
    assert (await extract(hostile_registry, unsigned(image, base))).record == first.record
    assert hostile_registry.requests == []
    by_tag = await extract(hostile_registry, unsigned(image.with_tag("v1"), base))
    assert by_tag.record == first.record


async def test_verification_for_one_image_name_does_not_apply_to_another(
    hostile_registry: HostileRegistry, tmp_path: Path, base: Path, sigstore: PrivateSigstore
) -> None:
    image = put(hostile_registry, image_of([(gzip.compress(HELLO), GZIP)]))
    sign_v2(hostile_registry, sigstore.identity(CI), image.digest)
    policies = policies_of(sigstore, tmp_path / "policies", subject=CI, images=(image.name,))
    await extract(hostile_registry, ExtractionRequest(image=image, base=base, policies=policies))
    elsewhere = replace(image, repository="team/other")
    with pytest.raises(UnverifiedError) as caught:
        await extract(hostile_registry, ExtractionRequest(image=elsewhere, base=base, policies=policies))
    assert caught.value.reason is RejectionReason.NOT_COVERED
