"""Who signed, and when: each way to look like somebody else is refused for what it is, in both formats."""

from __future__ import annotations

import base64
import json
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from private_sigstore import (
    CertificateAuthority,
    Key,
    LogIdentity,
    PrivateSigstore,
    bundle_v3,
    edited_entry,
    log_body,
    pem,
    signature_image,
    signature_tag,
    simple_signing,
)
from private_sigstore.rekor import dsse_body, hashedrekord_body
from signing_stand import (
    IDENTITY,
    IMAGE,
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

ACME = "https://github.com/acme/.*"
USER_NAME = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7")


def user_name(text: str) -> x509.OtherName:
    """Fulcio's own form of a subject, which may hold any text."""
    value = text.encode()
    return x509.OtherName(USER_NAME, bytes([0x0C, len(value)]) + value)


MISMATCH, UNTRUSTED = RejectionReason.IDENTITY_MISMATCH, RejectionReason.UNTRUSTED_ROOT
AUTHORITY = SIGSTORE.authority


@pytest.mark.parametrize(
    ("signer", "reason", "words"),
    [
        (SIGSTORE.identity(IDENTITY.replace("main", "fork")), MISMATCH, "refs/heads/fork"),
        (SIGSTORE.identity(IDENTITY, issuer="https://idp.evil.test"), MISMATCH, ""),
        (SIGSTORE.identity(IDENTITY, issuer=None), MISMATCH, ""),
        (SIGSTORE.key(), RejectionReason.OTHER_KIND, ""),
        (replace(SIGNER, key=Key.new()), RejectionReason.SIGNATURE_INVALID, ""),
        (
            replace(SIGNER, key=AUTHORITY.key, certificate=AUTHORITY.intermediate, chain=(AUTHORITY.root,)),
            UNTRUSTED,
            "belongs to an authority",
        ),
        (SIGSTORE.identity(IDENTITY, usage=ExtendedKeyUsageOID.SERVER_AUTH), UNTRUSTED, "code signing"),
        (SIGSTORE.identity(IDENTITY, sct=False), UNTRUSTED, "certificate log"),
        (SIGSTORE.identity(IDENTITY, ct_log=LogIdentity()), UNTRUSTED, "certificate log"),
        (SIGSTORE.identity(IDENTITY, ct_log=SIGSTORE.ct_log.impostor()), UNTRUSTED, "certificate log"),
        (PrivateSigstore.new().identity(IDENTITY), RejectionReason.LOG_ENTRY_INVALID, ""),
    ],
    ids=[
        "another identity",
        "another issuer",
        "no issuer",
        "plain key",
        "certificate of somebody else",
        "authority",
        "certificate for servers",
        "in no certificate log",
        "unknown certificate log",
        "impostor of the certificate log",
        "another instance of sigstore",
    ],
)
async def test_untrusted_signer_is_rejected_with_reason(stand, form, signer, reason, words):
    stand.attach(form, signer)
    refusal = await stand.refusal()
    assert refusal.reason == reason
    assert words in refusal.message


@pytest.mark.parametrize(
    "longer",
    [
        "https://github.com/acme-evil/ci",
        "https://evil.test/https://github.com/acme/ci",
        "https://github.com/acme/ci.evil.test",
    ],
)
async def test_identity_that_contains_allowed_name_is_rejected(stand, form, longer):
    stand.attach(form, SIGSTORE.identity(longer))
    assert await stand.reason(policy(keyless(subjectPattern="https://github.com/acme/ci"))) == MISMATCH


@pytest.mark.parametrize(
    "text", ["https://github.com/acme/\0", "https://github.com/acme/\nx", "https://github.com/\u0430cme/x"]
)
async def test_subject_with_control_characters_or_homoglyphs_is_rejected(stand, form, text):
    stand.attach(form, SIGSTORE.identity(user_name(text)))
    refusal = await stand.refusal(policy(keyless(subjectPattern=ACME)))
    assert refusal.reason == MISMATCH
    assert refusal.message.isprintable()


async def test_certificate_signature_is_rejected_by_key_policy(stand, form):
    stand.attach(form, SIGNER)
    assert await stand.reason(policy(by_key(SIGNER))) == RejectionReason.OTHER_KIND


async def test_signature_of_another_key_is_rejected(stand, form):
    stand.attach(form, SIGSTORE.key(), tlog=False)
    assert await stand.reason(policy(by_key(SIGSTORE.key()))) == RejectionReason.SIGNATURE_INVALID


@pytest.mark.parametrize("name", ["evil", "private"])
async def test_untrusted_authority_is_rejected_regardless_of_name(stand, form, name):
    evil = CertificateAuthority.new(name, around=SIGNER.at)
    stand.attach(form, SIGSTORE.identity(IDENTITY, authority=evil))
    assert await stand.reason() == UNTRUSTED


async def test_certificate_without_digital_signature_usage_is_rejected(stand, form):
    authority = CertificateAuthority.new("acme", around=SIGNER.at)
    signer = SIGSTORE.identity(authority=authority, key_usage="key_encipherment", sct=False)
    stand.attach(form, signer)
    refusal = await stand.refusal(policy({"ca": {"data": pem(*authority.chain)}}))
    assert refusal.reason == UNTRUSTED
    assert "not valid for digital signatures" in refusal.message


async def test_certificate_with_weak_key_is_rejected(stand, form):
    key = Key(rsa.generate_private_key(public_exponent=65537, key_size=1024))  # noqa: S505 - the weakness is the point
    certificate = SIGSTORE.authority.issue(
        key, x509.RFC822Name("ci@acme.test"), not_before=SIGNER.at, not_after=at(600)
    )
    stand.attach(form, replace(SIGNER, key=key, certificate=certificate), tlog=False)
    signer = {"ca": {"data": pem(SIGSTORE.authority.root)}, "transparencyLog": "notRequired"}
    assert await stand.reason(policy(signer), clock=lambda: at(60)) == UNTRUSTED


async def test_expired_certificate_without_proof_of_time_is_rejected(stand, form):
    stand.attach(form, SIGNER, tlog=False)
    assert await stand.reason(policy(without_log(keyless()))) == RejectionReason.CERTIFICATE_EXPIRED


@pytest.mark.parametrize("seconds", [-3600, 3600])
async def test_signing_time_outside_certificate_validity_is_rejected(stand, form, seconds):
    stand.attach(form, SIGNER, integrated_time=at(seconds))
    assert await stand.reason() == RejectionReason.CERTIFICATE_EXPIRED


@pytest.mark.parametrize("log", [LogIdentity(), SIGSTORE.rekor.impostor()], ids=["unknown", "impostor"])
async def test_entry_of_untrusted_log_is_rejected(stand, form, log):
    stand.attach(form, SIGNER, rekor=log)
    assert await stand.reason() == RejectionReason.LOG_ENTRY_INVALID


async def test_certificate_signature_without_required_log_entry_is_rejected(stand, form):
    stand.attach(form, SIGNER, tlog=False)
    assert await stand.reason() == RejectionReason.LOG_ENTRY_MISSING


async def test_key_signature_without_required_log_entry_is_rejected(stand, form):
    signer = SIGSTORE.key()
    stand.attach(form, signer, tlog=False)
    assert (
        await stand.reason(policy({"key": {"data": signer.key.public_pem.decode()}}))
        == RejectionReason.LOG_ENTRY_MISSING
    )


async def test_invalid_log_entry_is_rejected_even_if_not_required(stand, form):
    signer = SIGSTORE.key()
    stand.attach(form, signer, rekor=LogIdentity())
    assert await stand.reason(policy(by_key(signer))) == RejectionReason.LOG_ENTRY_INVALID


def entry_for(form: str, signer, digest: str) -> bytes:
    """The body of the log's entry for a signature of its own."""
    return log_body(bundle_v3(signer, digest)) if form == "cosign-v3" else simple_signing(signer, digest).log_body


@pytest.mark.parametrize("digest", [OTHER.digest, IMAGE.digest], ids=["another payload", "another signature"])
async def test_log_entry_of_another_signature_is_rejected(stand, form, digest):
    stand.attach(form, SIGNER, body=entry_for(form, SIGNER, digest))
    assert await stand.reason() == RejectionReason.LOG_ENTRY_INVALID


@pytest.mark.parametrize("wrong", ["signer", "payload"])
async def test_log_entry_with_different_signer_or_payload_is_rejected(stand, form, wrong):
    # RSA signs alike each time, so that the entry can be about this very signature.
    signer = SIGSTORE.key("rsa")
    named = SIGSTORE.key("rsa").verifier_pem if wrong == "signer" else signer.verifier_pem
    if form == "cosign-v3":
        envelope = json.loads(bundle_v3(signer, IMAGE.digest))["dsseEnvelope"]
        payload, signature = (
            base64.b64decode(each) for each in (envelope["payload"], envelope["signatures"][0]["sig"])
        )
        body = dsse_body(b"", payload if wrong == "signer" else b"another", [signature], named)
    else:
        payload = simple_signing(signer, IMAGE.digest).payload
        body = hashedrekord_body(payload if wrong == "signer" else b"another", signer.key.sign(payload), named)
    stand.attach(form, signer, body=body)
    refusal = await stand.refusal(policy(by_key(signer)))
    assert refusal.reason == RejectionReason.LOG_ENTRY_INVALID
    assert f"another {wrong}" in refusal.message


async def test_modified_log_entry_is_rejected(stand, form):
    if form == "cosign-v3":
        bundle = bundle_v3(SIGNER, IMAGE.digest)
        stand.attach_bundle(edited_entry(bundle, lambda entry: entry.update(logIndex="8")))
    else:
        signing = simple_signing(SIGNER, IMAGE.digest).edited_log(lambda log: log["Payload"].update(logIndex=8))
        stand.push(signature_image([signing]), tag=signature_tag(IMAGE.digest))
    assert await stand.reason() == RejectionReason.LOG_ENTRY_INVALID


def ended(period: dict) -> None:
    period["validFor"] = {"start": "2000-01-01T00:00:00Z", "end": "2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda root: ended(root["tlogs"][0]["publicKey"]), RejectionReason.LOG_ENTRY_INVALID),
        (lambda root: ended(root["ctlogs"][0]["publicKey"]), UNTRUSTED),
        (lambda root: ended(root["certificateAuthorities"][0]), UNTRUSTED),
    ],
    ids=["log", "certificate log", "authority"],
)
async def test_trust_material_not_valid_at_signing_time_is_rejected(stand, form, change, reason):
    stand.attach(form, SIGNER)
    assert (await stand.verify()).signatures
    stand.trust(change)
    refusal = await stand.refusal()
    assert refusal.reason == reason
    assert "trusted at 2025-06-01" in refusal.message


async def test_trusted_root_without_certificate_logs_is_unavailable(stand, form):
    stand.attach(form, SIGNER)
    stand.trust(lambda root: root.update(ctlogs=[]))
    assert await stand.reason() == RejectionReason.TRUST_ROOT_UNAVAILABLE


async def test_valid_certificate_needs_no_proof_of_signing_time(stand, form):
    stand.attach(form, SIGNER, tlog=False)
    verification = await stand.verify(policy(without_log(keyless())), clock=lambda: at(60))
    assert verification.signatures[0].signed_at is None


async def test_bundle_rejected_by_sigstore_is_rejected(stand):
    # The entry itself says its kind, which is judged here; sigstore goes by what the bundle says beside it.
    bundle = bundle_v3(SIGNER, IMAGE.digest)
    stand.attach_bundle(edited_entry(bundle, lambda entry: entry["kindVersion"].update(version="0.0.2")))
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.SIGNATURE_INVALID
    assert "sigstore rejected the signature" in refusal.message
