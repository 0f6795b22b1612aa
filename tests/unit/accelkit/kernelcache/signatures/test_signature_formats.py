"""Every way to sign that a policy can name is accepted: both formats, each kind of signer, with and without a log."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from private_sigstore import (
    BUNDLE_V0_2,
    GITHUB,
    CertificateAuthority,
    Signer,
    bundle_v3,
    edited_entry,
    example_image,
    fallback_index,
    pem,
    signature_image,
    signature_tag,
    simple_signing,
)
from private_sigstore.certificates import ISSUER_V1, ISSUER_V2
from signing_stand import (
    IDENTITY,
    IMAGE,
    LATER,
    OTHER,
    SIGNER,
    SIGSTORE,
    at,
    by_key,
    keyless,
    policy,
    without_log,
)

from accelkit.kernelcache.signatures import RejectionReason

CORPORATE = CertificateAuthority.new("acme", around=SIGNER.at)


def corporate(**more: str) -> dict:
    return {"name": "corporate", "ca": {"data": pem(*CORPORATE.chain), **more}}


def builder(**how) -> Signer:
    """Somebody whom the private authority certified, for two years."""
    usual = {"authority": CORPORATE, "not_before": SIGNER.at, "not_after": LATER + timedelta(days=365)}
    return SIGSTORE.identity("build@acme.test", issuer=None, sct=False, **(usual | how))


@pytest.mark.parametrize("kind", ["ecdsa", "rsa", "ed25519"])
async def test_keyless_signature_is_accepted_with_log_entry(stand, form, kind):
    signer = SIGSTORE.identity(IDENTITY, kind=kind)
    stand.attach(form, signer)
    (signature,) = (await stand.verify()).signatures
    assert (signature.policy, signature.signer, signature.format) == ("acme", "ci", form)
    assert (signature.identity, signature.issuer, signature.log_index) == (IDENTITY, GITHUB, 7)
    assert signature.signed_at == signer.at


@pytest.mark.parametrize("oids", [(ISSUER_V1,), (ISSUER_V2,)])
async def test_issuer_is_read_from_either_extension(stand, form, oids):
    stand.attach(form, SIGSTORE.identity(IDENTITY, issuer_oids=oids))
    assert (await stand.verify()).signatures[0].issuer == GITHUB


async def test_email_address_is_accepted_as_identity(stand, form):
    stand.attach(form, SIGSTORE.identity("ci@acme.test"))
    assert (await stand.verify(policy(keyless(subject="ci@acme.test")))).signatures[0].identity == "ci@acme.test"


async def test_bundle_v0_2_with_chain_is_accepted(stand):
    stand.attach("cosign-v3", SIGNER, media_type=BUNDLE_V0_2)
    assert (await stand.verify()).signatures


# With Ed25519 the log wants another variant of the signature.
@pytest.mark.parametrize(
    ("kind", "log"), [("ecdsa", True), ("ecdsa", False), ("rsa", True), ("rsa", False), ("ed25519", False)]
)
async def test_key_signature_is_accepted_with_and_without_log(stand, form, kind, log):
    signer = SIGSTORE.key(kind)
    stand.attach(form, signer, tlog=log)
    given = policy({"key": {"data": signer.key.public_pem.decode()}} if log else by_key(signer))
    (signature,) = (await stand.verify(given)).signatures
    assert signature.identity == f"sha256:{signer.key.fingerprint.hex()}"
    assert signature.log_index == (7 if log else None)
    assert signature.signed_at == (signer.at if log else None)


@pytest.mark.parametrize("log", [True, False])
async def test_private_authority_is_accepted_with_chain_in_signature(stand, form, log):
    how = {} if form == "cosign-v2" else {"material": "x509CertificateChain"}
    stand.attach(form, builder(), tlog=log, **how)
    signer = corporate(data=pem(CORPORATE.root), subject="build@acme.test")
    (signature,) = (await stand.verify(policy(signer if log else without_log(signer)))).signatures
    assert (signature.signer, signature.identity) == ("corporate", "build@acme.test")


async def test_private_authority_is_accepted_with_chain_in_policy(stand):
    stand.attach("cosign-v3", builder(), tlog=False, material="certificate")
    assert (await stand.verify(policy(without_log(corporate())))).signatures
    assert (
        await stand.reason(policy(without_log(corporate(data=pem(CORPORATE.root))))) == RejectionReason.UNTRUSTED_ROOT
    )


async def test_private_authority_without_subject_accepts_any_identity(stand, form):
    stand.attach(form, builder(), tlog=False)
    assert (await stand.verify(policy(without_log(corporate())))).signatures[0].identity == "build@acme.test"


async def test_private_authority_accepts_only_subject_of_policy(stand, form):
    stand.attach(form, builder(), tlog=False)
    signer = without_log(corporate(subject="release@acme.test"))
    assert await stand.reason(policy(signer)) == RejectionReason.IDENTITY_MISMATCH


async def test_another_private_authority_is_rejected(stand, form):
    other = CertificateAuthority.new("acme", around=SIGNER.at)
    stand.attach(form, builder(authority=other), tlog=False)
    assert await stand.reason(policy(without_log(corporate()))) == RejectionReason.UNTRUSTED_ROOT


async def test_expired_private_certificate_requires_log_entry(stand, form):
    signer = builder(not_after=at(600))
    given = policy(without_log(corporate()))
    stand.attach(form, signer, tlog=False)
    assert await stand.reason(given) == RejectionReason.CERTIFICATE_EXPIRED
    stand.attach(form, signer)
    assert (await stand.verify(given)).signatures[0].signed_at == signer.at


async def test_private_authority_and_key_without_log_need_no_trusted_root(stand, form):
    signer = SIGSTORE.key()
    stand.root.write_text("no trusted root")
    stand.attach(form, signer, tlog=False)
    assert (await stand.verify(policy(by_key(signer)))).signatures
    stand.attach(form, builder(), tlog=False)
    assert (await stand.verify(policy(without_log(corporate())))).signatures


async def test_unusable_trusted_root_is_a_retryable_failure(stand, form):
    stand.root.write_text("no trusted root")
    stand.attach(form, SIGNER)
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.TRUST_ROOT_UNAVAILABLE
    assert refusal.reason.retryable


async def test_one_valid_signature_among_several_is_sufficient(stand, form):
    signers = [SIGSTORE.identity("ci@evil.test"), SIGSTORE.key(), SIGNER]
    if form == "cosign-v2":
        layers = [simple_signing(SIGNER, OTHER.digest), *(simple_signing(each, IMAGE.digest) for each in signers)]
        stand.push(signature_image(layers), tag=signature_tag(IMAGE.digest))
    else:
        for each in signers:
            stand.attach(form, each)
    assert (await stand.verify()).signatures[0].identity == IDENTITY


async def test_signature_of_index_does_not_cover_its_members(stand, form):
    index = stand.push(fallback_index([IMAGE, OTHER]), tag="all")
    if form == "cosign-v2":
        stand.push(signature_image([simple_signing(SIGNER, index.digest)]), tag=signature_tag(index.digest))
    else:
        stand.attach_bundle(bundle_v3(SIGNER, index.digest), index)
    assert (await stand.verify(version=":all")).image.digest == index.digest
    assert await stand.reason() == RejectionReason.NO_SIGNATURES


async def test_log_index_is_read_from_inclusion_proof(stand):
    # Without the log's promise nothing proves the entry's own number; the proof has the place in its tree.
    bundle = bundle_v3(SIGNER, IMAGE.digest)
    stand.attach_bundle(
        edited_entry(bundle, lambda entry: (entry.pop("inclusionPromise"), entry.update(logIndex="99")))
    )
    (signature,) = (await stand.verify(clock=lambda: at(60))).signatures
    assert (signature.log_index, signature.signed_at) == (1, None)
    assert await stand.reason(clock=lambda: LATER) == RejectionReason.CERTIFICATE_EXPIRED


async def test_verification_result_contains_verified_image_and_policy_digest(stand, form):
    image = example_image(b"third")
    assert image.digest != IMAGE.digest
    stand.attach(form, SIGNER)
    verification = await stand.verify()
    assert str(verification.image) == f"{stand.registry.host}/team/app:v1@{IMAGE.digest}"
    assert json.loads(verification.manifest.content)
    assert verification.policy_digest.startswith("sha256:")
