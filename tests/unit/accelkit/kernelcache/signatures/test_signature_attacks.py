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

from accelkit.kernelcache.signatures import RejectionReason as Reason

ACI = policy(keyless(subjectPattern="https://github.com/acme/ci"))
ACME = policy(keyless(subjectPattern="https://github.com/acme/.*"))
KEY = SIGSTORE.key()
TRUSTED = SIGSTORE.authority
OWN = CertificateAuthority.new("acme", around=SIGNER.at)
USER_NAME = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.7")


def user_name(text: str) -> x509.OtherName:
    """Fulcio's own form of a subject, which may hold any text."""
    value = text.encode()
    return x509.OtherName(USER_NAME, bytes([0x0C, len(value)]) + value)


def attack(reason: Reason, signer=SIGNER, *, by: str | None = None, said: str = "", **how):
    """A signature that is refused: by whom, judged by which policy if not the usual one, how it is attached."""
    return signer, how, [by] if by else [], reason, said


def identity(reason: Reason, subject=IDENTITY, *, by: str | None = None, said: str = "", **how):
    return attack(reason, SIGSTORE.identity(subject, **how), by=by, said=said)


ATTACKS = {
    "another identity": identity(Reason.IDENTITY_MISMATCH, IDENTITY.replace("main", "fork"), said="refs/heads/fork"),
    "another issuer": identity(Reason.IDENTITY_MISMATCH, issuer="https://idp.evil.test"),
    "no issuer": identity(Reason.IDENTITY_MISMATCH, issuer=None),
    "longer name": identity(Reason.IDENTITY_MISMATCH, "https://github.com/acme-evil/ci", by=ACI),
    "name within": identity(Reason.IDENTITY_MISMATCH, "https://evil.test/https://github.com/acme/ci", by=ACI),
    "name in front": identity(Reason.IDENTITY_MISMATCH, "https://github.com/acme/ci.evil.test", by=ACI),
    "NUL": identity(Reason.IDENTITY_MISMATCH, user_name("https://github.com/acme/\0"), by=ACME),
    "line feed": identity(Reason.IDENTITY_MISMATCH, user_name("https://github.com/acme/\nx"), by=ACME),
    "lookalike": identity(Reason.IDENTITY_MISMATCH, user_name("https://github.com/\u0430cme/x"), by=ACME),
    "plain key for an identity": attack(Reason.OTHER_KIND, KEY),
    "certificate for a plain key": attack(Reason.OTHER_KIND, by=policy(by_key(SIGNER))),
    "another key": attack(Reason.SIGNATURE_INVALID, KEY, by=policy(by_key(SIGSTORE.key())), tlog=False),
    "certificate of another signer": attack(Reason.SIGNATURE_INVALID, replace(SIGNER, key=Key.new())),
    "unknown authority": identity(Reason.UNTRUSTED_ROOT, authority=CertificateAuthority.new("evil", around=SIGNER.at)),
    "authority of the same name": identity(
        Reason.UNTRUSTED_ROOT, authority=CertificateAuthority.new("private", around=SIGNER.at)
    ),
    "certificate of an authority": attack(
        Reason.UNTRUSTED_ROOT,
        replace(SIGNER, key=TRUSTED.key, certificate=TRUSTED.intermediate, chain=(TRUSTED.root,)),
        said="an authority's",
    ),
    "certificate for servers": identity(
        Reason.UNTRUSTED_ROOT, usage=ExtendedKeyUsageOID.SERVER_AUTH, said="signing code"
    ),
    "certificate not for digital signatures": attack(
        Reason.UNTRUSTED_ROOT,
        SIGSTORE.identity(authority=OWN, key_usage="key_encipherment", sct=False),
        by=policy({"ca": {"data": pem(*OWN.chain)}}),
        said="not for digital signatures",
    ),
    "no certificate log": identity(Reason.UNTRUSTED_ROOT, sct=False, said="certificate log"),
    "unknown certificate log": identity(Reason.UNTRUSTED_ROOT, ct_log=LogIdentity(), said="certificate log"),
    "impostor of the certificate log": identity(
        Reason.UNTRUSTED_ROOT, ct_log=SIGSTORE.ct_log.impostor(), said="certificate log"
    ),
    "expired without proof of the time": attack(
        Reason.CERTIFICATE_EXPIRED, by=policy(without_log(keyless())), tlog=False
    ),
    "entry before the certificate": attack(Reason.CERTIFICATE_EXPIRED, integrated_time=at(-3600)),
    "entry after the certificate": attack(Reason.CERTIFICATE_EXPIRED, integrated_time=at(3600)),
    "unknown log": attack(Reason.LOG_ENTRY_INVALID, rekor=LogIdentity()),
    "impostor of the log": attack(Reason.LOG_ENTRY_INVALID, rekor=SIGSTORE.rekor.impostor()),
    "unknown log where none is demanded": attack(
        Reason.LOG_ENTRY_INVALID, KEY, by=policy(by_key(KEY)), rekor=LogIdentity()
    ),
    "another instance of Sigstore": attack(Reason.LOG_ENTRY_INVALID, PrivateSigstore.new().identity(IDENTITY)),
    "no log": attack(Reason.LOG_ENTRY_MISSING, tlog=False),
    "key without a log": attack(
        Reason.LOG_ENTRY_MISSING, KEY, by=policy({"key": {"data": KEY.key.public_pem.decode()}}), tlog=False
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_is_refused_for_what_it_is(stand, form, name):
    signer, how, documents, reason, said = ATTACKS[name]
    stand.attach(form, signer, **how)
    refusal = await stand.refusal(*documents)
    assert refusal.reason == reason
    assert said in refusal.message
    assert refusal.message.isprintable()


async def test_a_certificate_of_a_weak_key_is_refused(stand, form):
    key = Key(rsa.generate_private_key(public_exponent=65537, key_size=1024))  # noqa: S505 - the weakness is the point
    certificate = SIGSTORE.authority.issue(
        key, x509.RFC822Name("ci@acme.test"), not_before=SIGNER.at, not_after=at(600)
    )
    stand.attach(form, replace(SIGNER, key=key, certificate=certificate), tlog=False)
    signer = {"ca": {"data": pem(SIGSTORE.authority.root)}, "transparencyLog": "notRequired"}
    assert await stand.reason(policy(signer), clock=lambda: at(60)) == Reason.UNTRUSTED_ROOT


def entry_for(form: str, signer, digest: str) -> bytes:
    """The body of the log's entry for a signature of its own."""
    return log_body(bundle_v3(signer, digest)) if form == "cosign-v3" else simple_signing(signer, digest).log_body


@pytest.mark.parametrize("digest", [OTHER.digest, IMAGE.digest], ids=["another payload", "another signature"])
async def test_the_entry_of_another_signature_is_refused(stand, form, digest):
    stand.attach(form, SIGNER, body=entry_for(form, SIGNER, digest))
    assert await stand.reason() == Reason.LOG_ENTRY_INVALID


@pytest.mark.parametrize("wrong", ["signer", "payload"])
async def test_an_entry_that_has_this_signature_and_another_signer_or_payload_is_refused(stand, form, wrong):
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
    assert refusal.reason == Reason.LOG_ENTRY_INVALID
    assert f"another {wrong}" in refusal.message


async def test_a_changed_entry_is_refused(stand, form):
    if form == "cosign-v3":
        bundle = bundle_v3(SIGNER, IMAGE.digest)
        stand.attach_bundle(edited_entry(bundle, lambda entry: entry.update(logIndex="8")))
    else:
        signing = simple_signing(SIGNER, IMAGE.digest).edited_log(lambda log: log["Payload"].update(logIndex=8))
        stand.push(signature_image([signing]), tag=signature_tag(IMAGE.digest))
    assert await stand.reason() == Reason.LOG_ENTRY_INVALID


def ended(period: dict) -> None:
    period["validFor"] = {"start": "2000-01-01T00:00:00Z", "end": "2024-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda root: ended(root["tlogs"][0]["publicKey"]), Reason.LOG_ENTRY_INVALID),
        (lambda root: ended(root["ctlogs"][0]["publicKey"]), Reason.UNTRUSTED_ROOT),
        (lambda root: ended(root["certificateAuthorities"][0]), Reason.UNTRUSTED_ROOT),
    ],
    ids=["log", "certificate log", "authority"],
)
async def test_what_the_root_trusted_at_another_time_only_is_refused(stand, form, change, reason):
    stand.attach(form, SIGNER)
    assert (await stand.verify()).signatures
    stand.trust(change)
    refusal = await stand.refusal()
    assert refusal.reason == reason
    assert "trusted at 2025-06-01" in refusal.message


async def test_a_root_without_certificate_logs_leaves_the_verdict_open(stand, form):
    stand.attach(form, SIGNER)
    stand.trust(lambda root: root.update(ctlogs=[]))
    assert await stand.reason() == Reason.TRUST_ROOT_UNAVAILABLE


async def test_a_certificate_that_is_still_valid_needs_no_proof_of_the_time(stand, form):
    stand.attach(form, SIGNER, tlog=False)
    verification = await stand.verify(policy(without_log(keyless())), clock=lambda: at(60))
    assert verification.signatures[0].signed_at is None


async def test_a_bundle_that_sigstore_refuses_is_refused_although_all_else_holds(stand):
    # The entry itself says its kind, which is judged here; sigstore goes by what the bundle says beside it.
    bundle = bundle_v3(SIGNER, IMAGE.digest)
    stand.attach_bundle(edited_entry(bundle, lambda entry: entry["kindVersion"].update(version="0.0.2")))
    refusal = await stand.refusal()
    assert refusal.reason == Reason.SIGNATURE_INVALID
    assert "sigstore refuses it" in refusal.message
