"""What cosign accepts and looks odd: line breaks, certificates without usages, old entries of the log.

Each is accepted as cosign does it, and what lies next to it stays refused.
"""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from private_sigstore import (
    SIGNATURE_ANNOTATION,
    CertificateAuthority,
    bundle_v3,
    pem,
    signature_image,
    signature_tag,
    simple_signing,
)
from private_sigstore.rekor import intoto_body, logged
from signing_stand import IMAGE, LATER, SIGNER, SIGSTORE, at, by_key, keyless, policy

from accelkit.kernelcache.signatures import RejectionReason

PLAIN = CertificateAuthority.new("plain", around=SIGNER.at, limited_to=None, key_usages=())
# They reach into the time at which all is judged.
LIVES = {"not_before": SIGNER.at, "not_after": LATER + timedelta(days=365)}
KEY = SIGSTORE.key()
PERSON = "build@acme.example"


def attach_text(stand, change, *, tlog: bool) -> None:
    """Attach a signature of cosign 2 whose text was changed."""
    signing = simple_signing(SIGNER if tlog else KEY, IMAGE.digest, tlog=tlog)
    text = change(signing.annotations[SIGNATURE_ANNOTATION])
    changed = signing.annotated(**{SIGNATURE_ANNOTATION: text})
    stand.push(signature_image([changed]), tag=signature_tag(IMAGE.digest))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
async def test_signature_text_may_contain_line_breaks(stand, end):
    attach_text(stand, lambda text: text[:60] + end + text[60:] + end, tlog=False)
    assert await stand.verify(policy(by_key(KEY)))


@pytest.mark.parametrize("between", [" ", "\t", "\v", "\f", "\u2028", "-", "_", "=", "\0", "\u00a0"])
async def test_signature_text_with_other_characters_is_rejected(stand, between):
    attach_text(stand, lambda text: text[:60] + between + text[60:], tlog=False)
    assert await stand.reason(policy(by_key(KEY))) == RejectionReason.UNREADABLE


@pytest.mark.parametrize("change", [lambda text: text.rstrip("=") + "=\nAAAA", lambda text: text[:-3] + "\n"])
async def test_line_breaks_do_not_hide_trailing_or_missing_data(stand, change):
    attach_text(stand, change, tlog=False)
    assert await stand.reason(policy(by_key(KEY))) == RejectionReason.UNREADABLE


async def test_signature_text_with_line_breaks_and_log_entry_is_rejected(stand):
    attach_text(stand, lambda text: text[:60] + "\n" + text[60:], tlog=True)
    assert await stand.reason() == RejectionReason.UNREADABLE


def plain(authority: CertificateAuthority = PLAIN, **more: str) -> dict:
    signer = {"name": "plain", "ca": {"data": pem(*authority.chain), **more}}
    return {**signer, "transparencyLog": "notRequired"}


def sign_plainly(stand, form: str, **how) -> None:
    usual = {"authority": PLAIN, "usage": None, "issuer": None, "sct": False, **LIVES}
    stand.attach(form, SIGSTORE.identity(PERSON, **(usual | how)), tlog=False)


async def test_certificate_without_extended_usage_is_accepted_for_named_subject(stand, form):
    sign_plainly(stand, form)
    verified = await stand.verify(policy(plain(subject=PERSON)))
    assert [each.identity for each in verified.signatures] == [PERSON]


async def test_certificate_without_extended_usage_requires_named_subject(stand, form):
    sign_plainly(stand, form)
    assert await stand.reason(policy(plain())) == RejectionReason.UNTRUSTED_ROOT


async def test_missing_key_usage_is_accepted_for_named_subject(stand, form):
    sign_plainly(stand, form, key_usage=None)
    assert await stand.verify(policy(plain(subject=PERSON)))


@pytest.mark.parametrize("leaf", ["digital_signature", None])
@pytest.mark.parametrize("above", [(), ("key_cert_sign",)], ids=["authority without", "authority with"])
async def test_missing_key_usage_is_accepted_without_named_subject(stand, form, leaf, above):
    authority = CertificateAuthority.new("whole", around=SIGNER.at, limited_to=None, key_usages=above)
    sign_plainly(stand, form, authority=authority, usage=ExtendedKeyUsageOID.CODE_SIGNING, key_usage=leaf)
    assert await stand.verify(policy(plain(authority)))


async def test_any_extended_usage_is_accepted_only_for_named_subject(stand, form):
    sign_plainly(stand, form, usage=ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE)
    assert await stand.verify(policy(plain(subject=PERSON)))
    assert await stand.reason(policy(plain())) == RejectionReason.UNTRUSTED_ROOT


@pytest.mark.parametrize("signer", [{}, {"subject": PERSON}], ids=["whole authority", "named subject"])
@pytest.mark.parametrize("leaf", ["digital_signature", None])
async def test_authority_key_usage_without_certificate_signing_is_rejected(stand, form, signer, leaf):
    unable = CertificateAuthority.new("unable", around=SIGNER.at, limited_to=None, key_usages=("digital_signature",))
    sign_plainly(stand, form, authority=unable, usage=ExtendedKeyUsageOID.CODE_SIGNING, key_usage=leaf)
    assert await stand.reason(policy(plain(unable, **signer))) == RejectionReason.UNTRUSTED_ROOT


async def test_certificate_of_another_subject_is_rejected(stand, form):
    sign_plainly(stand, form)
    assert await stand.reason(policy(plain(subject="else@acme.example"))) == RejectionReason.IDENTITY_MISMATCH


@pytest.mark.parametrize("usage", [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
async def test_certificate_with_other_extended_usage_is_rejected(stand, form, usage):
    sign_plainly(stand, form, usage=usage)
    assert await stand.reason(policy(plain(subject=PERSON))) == RejectionReason.UNTRUSTED_ROOT


async def test_certificate_without_digital_signature_usage_is_rejected(stand, form):
    sign_plainly(stand, form, key_usage="key_encipherment")
    assert await stand.reason(policy(plain(subject=PERSON))) == RejectionReason.UNTRUSTED_ROOT


@pytest.mark.parametrize("usage", [None, ExtendedKeyUsageOID.CODE_SIGNING])
async def test_authority_limited_to_server_certificates_is_rejected(stand, form, usage):
    servers = CertificateAuthority.new("tls", around=SIGNER.at, limited_to=ExtendedKeyUsageOID.SERVER_AUTH)
    sign_plainly(stand, form, authority=servers, usage=usage)
    assert await stand.reason(policy(plain(servers, subject=PERSON))) == RejectionReason.UNTRUSTED_ROOT


async def test_authority_limited_to_crl_signing_is_rejected(stand, form):
    unable = CertificateAuthority.new("unable", around=SIGNER.at, limited_to=None, key_usages=("crl_sign",))
    sign_plainly(stand, form, authority=unable)
    assert await stand.reason(policy(plain(unable, subject=PERSON))) == RejectionReason.UNTRUSTED_ROOT


async def test_leaf_certificate_cannot_issue_certificates(stand):
    middle = SIGSTORE.identity(PERSON, authority=PLAIN, usage=None, issuer=None, sct=False, **LIVES)
    below = CertificateAuthority("below", PLAIN.root, middle.certificate, middle.key)
    sign_plainly(stand, "cosign-v2", authority=below)
    assert await stand.reason(policy(plain(subject=PERSON))) == RejectionReason.UNTRUSTED_ROOT


async def test_sigstore_certificate_without_extended_usage_is_rejected(stand, form):
    stand.attach(form, SIGSTORE.identity(usage=None))
    assert await stand.reason() == RejectionReason.UNTRUSTED_ROOT


def envelope(bundle: bytes) -> bytes:
    return json.dumps(json.loads(bundle)["dsseEnvelope"]).encode()


def old_entry(stand, *, of: bytes | None = None, verifier: bytes = SIGNER.verifier_pem, **how) -> None:
    """Attach a bundle whose entry of the log is of the kind intoto, for itself or for another bundle."""
    # ECDSA signs differently each time, so a bundle is made first and then gets its entry.
    bundle = bundle_v3(SIGNER, IMAGE.digest)
    body = intoto_body(envelope(of or bundle), verifier, **how)
    document = json.loads(bundle)
    document["verificationMaterial"]["tlogEntries"] = [logged(SIGNER.rekor, body, at=SIGNER.at).as_bundle()]
    stand.attach_bundle(json.dumps(document).encode())


def payload_of(bundle: bytes) -> bytes:
    return base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])


PAYLOAD = payload_of(bundle_v3(SIGNER, IMAGE.digest))


@pytest.mark.parametrize("how", [{}, {"payload": PAYLOAD}])
async def test_intoto_log_entry_is_accepted_with_and_without_payload(stand, how):
    old_entry(stand, **how)
    verified = await stand.verify()
    assert verified.signatures[0].signed_at == at(0)


@pytest.mark.parametrize(
    "how",
    [
        {"of": bundle_v3(SIGNER, IMAGE.digest)},
        {"of": bundle_v3(SIGNER, "sha256:" + "a" * 64)},
        {"verifier": SIGSTORE.identity().verifier_pem},
        {"verifier": b"no certificate"},
        {"payload": b"another payload"},
    ],
    ids=["another signature", "another image", "another signer", "nobody", "a payload that is not the one hashed"],
)
async def test_mismatched_intoto_log_entry_is_rejected(stand, how):
    old_entry(stand, **how)
    assert await stand.reason(policy(keyless())) == RejectionReason.LOG_ENTRY_INVALID
