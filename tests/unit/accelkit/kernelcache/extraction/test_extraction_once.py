"""A cache is extracted once, and verified as often as the policy or the tag may have changed."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hand_made_archives import GZIP, archive, file
from private_sigstore import PrivateSigstore
from served_images import (
    HELLO,
    ImageStand,
    extract,
    image_of,
    policies_of,
    sign_v2,
    sign_v3,
)

from accelkit.kernelcache.extraction import ExtractionRequest, ExtractionResult, read_completed
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.signatures.findings import RejectionReason, UnverifiedError

BLOBS = ".*/blobs/.*"
CI = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
OTHER = "https://github.com/acme/other/.github/workflows/build.yml@refs/heads/main"


async def test_a_second_extraction_asks_for_no_layer(stand: ImageStand) -> None:
    image = stand.put_layers([HELLO])
    first = await stand.extract(image)
    stand.registry.requests.clear()
    second = await stand.extract(image)
    assert (second.fresh, second.record) == (False, first.record)
    assert stand.registry.requests == []
    stand.registry.requests.clear()
    assert not (await stand.extract(image.with_tag("v1"))).fresh
    assert [each.path for each in stand.registry.requests] == ["/v2/team/app/manifests/v1"]


async def test_a_moved_tag_is_extracted_beside_the_old_one(stand: ImageStand) -> None:
    first = stand.put_layers([HELLO])
    await stand.extract(first.with_tag("v1"))
    second = stand.put_layers([archive(file("io.triton.cache/K/new.json"))])
    assert (await stand.extract(first.with_tag("v1"))).place.digest == second.digest
    assert len(stand.visible()) == 2


IMAGE = image_of([(gzip.compress(HELLO), GZIP)])


@pytest.fixture
def signed(stand: ImageStand, sigstore: PrivateSigstore) -> Reference:
    """An image that the CI signed."""
    image = stand.put(IMAGE)
    sign_v2(stand.registry, sigstore.identity(CI), image.digest)
    return image


@pytest.fixture
def extract_by(stand: ImageStand, sigstore: PrivateSigstore, tmp_path: Path):
    """Extracts an image by a policy that lets the CI sign."""

    async def extract_by(image: Reference, name: str = "acme", **policy) -> ExtractionResult:
        policies = policies_of(sigstore, tmp_path / "policies", subject=CI, name=name, **policy)
        done = await extract(stand.registry, ExtractionRequest(image=image, base=stand.base, policies=policies))
        assert done.record.policy_digest.startswith(policies.digest)
        return done

    return extract_by


@pytest.mark.parametrize("sign", ["v2", "v3"])
async def test_a_signed_image_is_extracted_and_the_record_says_who_signed(stand, sigstore, extract_by, sign) -> None:
    image = stand.put(IMAGE)
    if sign == "v2":
        sign_v2(stand.registry, sigstore.identity(CI), image.digest)
    else:
        sign_v3(stand.registry, sigstore.identity(CI), IMAGE)
    assert CI in (await extract_by(image)).record.signatures[0]


async def test_what_the_policy_refuses_is_not_written_and_its_layers_are_not_fetched(
    stand, sigstore, extract_by
) -> None:
    image = stand.put(IMAGE)
    sign_v2(stand.registry, sigstore.identity(OTHER), image.digest)
    with pytest.raises(UnverifiedError) as caught:
        await extract_by(image)
    assert [each.reason for each in caught.value.failures] == [RejectionReason.IDENTITY_MISMATCH]
    assert len(stand.registry.received("GET", BLOBS)) == 1  # the signature's
    assert not stand.base.exists()


async def test_another_policy_is_asked_anew_and_the_files_stay(stand: ImageStand, signed, extract_by) -> None:
    done = await extract_by(signed)
    stand.registry.requests.clear()
    inode = (done.place.cache / "K/k.json").stat().st_ino
    again = await extract_by(signed, "second")
    assert not again.fresh
    assert again.record.policy_digest != done.record.policy_digest
    assert read_completed(done.place) == again.record
    assert (done.place.cache / "K/k.json").stat().st_ino == inode
    layer = json.loads(IMAGE.manifest)["layers"][0]["digest"]
    assert stand.registry.received("GET", f".*/blobs/{layer}") == []


async def test_a_cache_that_is_there_is_refused_by_a_policy_it_does_not_satisfy(stand: ImageStand, extract_by) -> None:
    image = stand.put(IMAGE)
    done = await stand.extract(image)
    with pytest.raises(UnverifiedError):
        await extract_by(image)
    assert read_completed(done.place) == done.record


async def test_who_asks_for_no_signature_takes_what_satisfied_a_policy(stand: ImageStand, signed, extract_by) -> None:
    first = await extract_by(signed)
    stand.registry.requests.clear()
    assert (await stand.extract(signed)).record == first.record
    assert stand.registry.requests == []
    assert (await stand.extract(signed.with_tag("v1"))).record == first.record


async def test_what_one_name_was_signed_for_does_not_count_for_another_name(signed, extract_by) -> None:
    await extract_by(signed, images=(signed.name,))
    with pytest.raises(UnverifiedError) as caught:
        await extract_by(replace(signed, repository="team/other"), images=(signed.name,))
    assert caught.value.reason is RejectionReason.NOT_COVERED
