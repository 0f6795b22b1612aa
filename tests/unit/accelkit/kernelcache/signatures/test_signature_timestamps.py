"""When something was signed, as timestamp authorities of the trusted root say: what counts, and what proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from private_sigstore import (
    MOMENT,
    CertificateAuthority,
    TimestampAuthority,
    bundle_v3,
    edited_entry,
    pem,
    trusted_root,
)
from signing_stand import IMAGE, SIGNER, SIGSTORE, SigningStand, at, policy

from accelkit.kernelcache.signatures import RejectionReason

AUTHORITY = TimestampAuthority.new("timestamps", around=MOMENT)
UNKNOWN = TimestampAuthority.new("timestamps", around=MOMENT)
CORPORATE = CertificateAuthority.new("acme", around=MOMENT)
# Certified for ten minutes by a private authority; without a log, only a timestamp proves when it signed.
BUILDER = SIGSTORE.identity("build@acme.test", issuer=None, sct=False, authority=CORPORATE, not_before=at(0))
CA = {"name": "corporate", "ca": {"data": pem(*CORPORATE.chain)}, "transparencyLog": "notRequired"}
GIVEN = policy(CA)

Stamps = Callable[[bytes], Sequence[bytes]]


@pytest.fixture
def stand(stand):
    trust(stand, AUTHORITY)
    return stand


def trust(stand: SigningStand, *timestampers: TimestampAuthority) -> None:
    """Let the trusted root name these timestamp authorities, and no others."""
    named: dict[str, Any] = {"ct_logs": [SIGSTORE.ct_log], "rekors": [SIGSTORE.rekor]}
    stand.root.write_text(trusted_root(authorities=[SIGSTORE.authority], timestampers=timestampers, **named))


def stamped(*moments: datetime, by: TimestampAuthority = AUTHORITY, **how: bool) -> Stamps:
    return lambda signature: [by.stamp(signature, at=each, **how) for each in moments]


async def test_timestamp_proves_certificate_validity_at_signing_time(stand, form):
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(60)))
    (signature,) = (await stand.verify(GIVEN)).signatures
    assert (signature.signed_at, signature.log_index) == (at(60), None)


@pytest.mark.parametrize("seconds", [-1, 601])
async def test_timestamp_outside_certificate_validity_is_rejected(stand, form, seconds):
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(seconds)))
    assert await stand.reason(GIVEN) == RejectionReason.CERTIFICATE_EXPIRED


async def test_timestamp_after_expiry_is_rejected_while_certificate_is_valid(stand, form):
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(601)))
    assert await stand.reason(GIVEN, clock=lambda: at(60)) == RejectionReason.CERTIFICATE_EXPIRED


async def test_timestamp_of_untrusted_authority_is_rejected(stand, form):
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(60), by=UNKNOWN))
    refusal = await stand.refusal(GIVEN)
    assert refusal.reason == RejectionReason.UNTRUSTED_ROOT
    assert "no timestamp of the signature is from a trusted authority" in refusal.message


async def test_timestamp_with_wrong_authority_key_is_rejected(stand, form):
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(60), by=replace(AUTHORITY, key=UNKNOWN.key)))
    assert await stand.reason(GIVEN) == RejectionReason.UNTRUSTED_ROOT


async def test_timestamp_of_another_signature_is_rejected(stand, form):
    stand.attach(form, BUILDER, tlog=False, stamps=lambda _: [AUTHORITY.stamp(b"another signature", at=at(60))])
    assert await stand.reason(GIVEN) == RejectionReason.UNTRUSTED_ROOT


async def test_modified_timestamp_is_rejected(stand, form):
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(60), changed=True))
    assert await stand.reason(GIVEN) == RejectionReason.UNTRUSTED_ROOT


async def test_malformed_timestamp_is_rejected(stand, form):
    stand.attach(form, BUILDER, tlog=False, stamps=lambda _: [b"no timestamp"])
    assert await stand.reason(GIVEN) == RejectionReason.UNREADABLE


async def test_timestamp_is_rejected_if_root_has_no_timestamp_authority(stand, form):
    trust(stand)
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(60)))
    assert await stand.reason(GIVEN) == RejectionReason.UNTRUSTED_ROOT


async def test_timestamp_authority_with_single_certificate_is_rejected(stand):
    trust(stand, replace(AUTHORITY, above=()))
    stand.attach("cosign-v3", BUILDER, tlog=False, stamps=stamped(at(60)))
    assert await stand.reason(GIVEN) == RejectionReason.UNTRUSTED_ROOT


@pytest.mark.parametrize(
    ("start", "end", "accepted"),
    [(60, 60, True), (0, None, True), (61, 120, False), (0, 59, False), (61, None, False)],
)
async def test_timestamp_authority_is_trusted_only_in_its_validity_period(stand, start, end, accepted):
    trust(stand, replace(AUTHORITY, start=at(start), end=None if end is None else at(end)))
    stand.attach("cosign-v3", BUILDER, tlog=False, stamps=stamped(at(60)))
    if accepted:
        assert (await stand.verify(GIVEN)).signatures[0].signed_at == at(60)
    else:
        assert await stand.reason(GIVEN) == RejectionReason.UNTRUSTED_ROOT


async def test_timestamp_of_any_trusted_authority_is_accepted(stand, form):
    another, past = (TimestampAuthority.new(name, around=MOMENT) for name in ("another", "past"))
    trust(stand, replace(past, end=at(0)), another, AUTHORITY)
    stand.attach(form, BUILDER, tlog=False, stamps=stamped(at(60)))
    assert (await stand.verify(GIVEN)).signatures[0].signed_at == at(60)


async def test_earliest_timestamp_is_signing_time(stand):
    stand.attach("cosign-v3", BUILDER, tlog=False, stamps=stamped(at(300), at(60), at(120)))
    assert (await stand.verify(GIVEN)).signatures[0].signed_at == at(60)


@pytest.mark.parametrize("moments", [(60, 601), (601, 60)])
async def test_every_timestamp_must_be_within_certificate_validity(stand, moments):
    stand.attach("cosign-v3", BUILDER, tlog=False, stamps=stamped(*map(at, moments)))
    assert await stand.reason(GIVEN) == RejectionReason.CERTIFICATE_EXPIRED


async def test_one_trusted_timestamp_among_untrusted_is_sufficient(stand):
    stamps = lambda signature: [UNKNOWN.stamp(signature, at=at(601)), AUTHORITY.stamp(signature, at=at(60))]  # noqa: E731
    stand.attach("cosign-v3", BUILDER, tlog=False, stamps=stamps)
    assert (await stand.verify(GIVEN)).signatures[0].signed_at == at(60)


@pytest.mark.parametrize(("count", "accepted"), [(32, True), (33, False)])
async def test_more_than_32_timestamps_are_rejected(stand, count, accepted):
    stand.attach("cosign-v3", BUILDER, tlog=False, stamps=stamped(*(at(each) for each in range(count))))
    if accepted:
        assert (await stand.verify(GIVEN)).signatures[0].signed_at == at(0)
    else:
        assert await stand.reason(GIVEN) == RejectionReason.UNREADABLE


async def test_valid_log_entry_does_not_excuse_invalid_timestamp(stand, form):
    stand.attach(form, SIGNER, stamps=stamped(at(3600)))
    assert await stand.reason() == RejectionReason.CERTIFICATE_EXPIRED


async def test_valid_timestamp_does_not_excuse_invalid_log_entry(stand, form):
    stand.attach(form, SIGNER, integrated_time=at(3600), stamps=stamped(at(60)))
    assert await stand.reason() == RejectionReason.CERTIFICATE_EXPIRED


async def test_earliest_of_log_entry_and_timestamp_is_signing_time(stand, form):
    stand.attach(form, SIGNER, integrated_time=at(90), stamps=stamped(at(60)))
    (signature,) = (await stand.verify()).signatures
    assert (signature.signed_at, signature.log_index) == (at(60), 7)


async def test_timestamp_at_end_of_authority_validity_is_accepted(stand):
    trust(stand, replace(AUTHORITY, end=at(60)))
    bundle = bundle_v3(SIGNER, IMAGE.digest, stamps=stamped(at(60)))
    # Without the log's promise, the timestamp alone proves the time.
    stand.attach_bundle(edited_entry(bundle, lambda entry: entry.pop("inclusionPromise")))
    assert (await stand.verify()).signatures[0].signed_at == at(60)


async def test_timestamp_of_key_signature_is_signing_time(stand, form):
    signer = SIGSTORE.key()
    stand.attach(form, signer, integrated_time=at(90), stamps=stamped(at(60)))
    (signature,) = (await stand.verify(policy({"key": {"data": signer.key.public_pem.decode()}}))).signatures
    assert signature.signed_at == at(60)
