"""Signatures that others made with cosign, some on the public Sigstore instance: right ones hold, others do not."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from private_sigstore import SimpleSigning, bundle_referrer, signature_image, signature_tag
from registries.artifact import Artifact
from registries.hostile import HostileRegistry
from registries.memory import digest_of
from signing_stand import REPOSITORY, policy, policy_file

from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings
from accelkit.kernelcache.signatures import RejectionReason, UnverifiedError, load_policies, verify_image

VECTORS = os.environ.get("ACCELKIT_VECTORS", "")
V2, V3 = Path(VECTORS) / "cosign-v2", Path(VECTORS) / "cosign-v3"
PROLOGUE = b"\0sigstore-json\n"
ISSUER = "https://github.com/login/oauth"
KEYLESS = {"keyless": {"issuer": ISSUER, "subject": "mitr@redhat.com"}}

pytestmark = pytest.mark.skipif(not VECTORS, reason="ACCELKIT_VECTORS does not name the folder of test vectors")


def key(name: str, *, log: str) -> dict:
    return {"key": {"file": str(V2 / name)}, "transparencyLog": log}


def signing(path: Path) -> SimpleSigning:
    content = path.read_bytes()
    assert content.startswith(PROLOGUE)
    document = json.loads(content.removeprefix(PROLOGUE))
    return SimpleSigning(base64.b64decode(document["payload"]), document["annotations"])


@pytest.fixture
def signed(tmp_path):
    """Judges a manifest with what is attached to it."""

    def push(registry: HostileRegistry, artifact: Artifact, tag: str | None = None) -> None:
        for blob in artifact.blobs:
            registry.put_blob(REPOSITORY, blob)
        registry.put_manifest(REPOSITORY, tag, artifact.manifest, artifact.media_type)

    async def judge(manifest: bytes, signer: dict, *signings: SimpleSigning, bundle: bytes | None = None, root=None):
        media_type = json.loads(manifest)["mediaType"]
        image = Artifact(manifest, (), media_type)
        with HostileRegistry() as registry:
            push(registry, image, "v1")
            if signings:
                push(registry, signature_image(signings), signature_tag(image.digest))
            if bundle is not None:
                push(registry, bundle_referrer(bundle, image))
            policies = load_policies(policy_file(tmp_path, policy(signer)), root)
            settings = RegistrySettings(plain_http=frozenset({registry.host}), attempts=1)
            async with RegistryClient(settings) as client:
                return await verify_image(client, parse_reference(f"{registry.host}/{REPOSITORY}:v1"), policies)

    return judge


def vector(name: str) -> SimpleNamespace:
    folder = V2 / name
    return SimpleNamespace(manifest=(folder / "manifest.json").read_bytes(), signing=signing(folder / "signature-1"))


async def test_public_sigstore_signature_is_valid_years_later(signed):
    case = vector("dir-img-cosign-fulcio-rekor-valid")
    verification = await signed(case.manifest, KEYLESS, case.signing)
    (signature,) = verification.signatures
    assert (signature.identity, signature.issuer) == ("mitr@redhat.com", ISSUER)
    assert signature.signed_at.year == 2023
    assert verification.image.digest == digest_of(case.manifest)


@pytest.mark.parametrize("changed", [{"issuer": "https://accounts.google.com"}, {"subject": "somebody@redhat.com"}])
async def test_public_sigstore_signature_is_rejected_for_other_identity(signed, changed):
    case = vector("dir-img-cosign-fulcio-rekor-valid")
    with pytest.raises(UnverifiedError) as caught:
        await signed(case.manifest, {"keyless": KEYLESS["keyless"] | changed}, case.signing)
    assert caught.value.reason == RejectionReason.IDENTITY_MISMATCH


async def test_key_signature_with_public_log_entry_is_valid(signed):
    case = vector("dir-img-cosign-key-rekor-valid")
    (signature,) = (await signed(case.manifest, key("cosign2.pub", log="required"), case.signing)).signatures
    assert signature.log_index is not None
    assert signature.signed_at is not None


async def test_key_signature_without_log_is_valid_only_if_log_is_not_required(signed):
    case = vector("dir-img-cosign-valid")
    assert (await signed(case.manifest, key("cosign.pub", log="notRequired"), case.signing)).signatures
    with pytest.raises(UnverifiedError) as caught:
        await signed(case.manifest, key("cosign.pub", log="required"), case.signing)
    assert caught.value.reason == RejectionReason.LOG_ENTRY_MISSING


async def test_signature_of_modified_manifest_is_rejected(signed):
    case = vector("dir-img-cosign-modified-manifest")
    with pytest.raises(UnverifiedError) as caught:
        await signed(case.manifest, key("cosign.pub", log="notRequired"), case.signing)
    assert caught.value.reason == RejectionReason.SUBJECT_MISMATCH


async def test_signature_of_unknown_key_is_rejected(signed):
    case = vector("dir-img-cosign-valid")
    unknown = signing(V2 / "unknown-cosign-key.signature")
    with pytest.raises(UnverifiedError) as caught:
        await signed(case.manifest, key("cosign.pub", log="notRequired"), unknown)
    assert caught.value.reason == RejectionReason.SIGNATURE_INVALID


async def test_public_attestation_is_not_a_signature(signed):
    bundle = (V3 / "oci-attestation.sigstore.json").read_bytes()
    payload = json.loads(base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"]))
    signer = {"keyless": {"issuer": ISSUER, "subject": "cody@soyland.com"}}
    # The manifest that it is about is not at hand; any has no signature either.
    case = vector("dir-img-cosign-valid")
    with pytest.raises(UnverifiedError) as caught:
        await signed(case.manifest, signer, bundle=bundle, root=V3 / "trusted_root_public_good.json")
    assert caught.value.reason == RejectionReason.NOT_A_SIGNATURE
    assert payload["predicateType"] in caught.value.message
