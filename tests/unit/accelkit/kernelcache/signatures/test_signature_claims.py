"""What is signed: only a statement about this very image, which every reader reads alike, counts as its signature."""

from __future__ import annotations

import json

import pytest
from private_sigstore import (
    SIGNATURE_ANNOTATION,
    bundle_v3,
    edited,
    message_signature_bundle,
    signature_image,
    signature_tag,
    simple_signing,
)
from signing_stand import (
    IMAGE,
    OTHER,
    SIGNER,
    SIGSTORE,
    by_key,
    keyless,
    policy,
)

from accelkit.kernelcache.signatures import RejectionReason as Reason

TAG = signature_tag(IMAGE.digest)
HEX = IMAGE.digest.removeprefix("sha256:")


async def test_an_image_without_signatures_is_refused(stand):
    refusal = await stand.refusal()
    assert refusal.reason == Reason.NO_SIGNATURES
    assert "cosign sign" in refusal.next_step


async def test_the_signature_of_another_image_is_refused(stand, form):
    stand.attach(form, SIGNER, OTHER.digest)
    assert await stand.reason() == Reason.SUBJECT_MISMATCH


async def test_a_signature_image_copied_to_the_tag_of_another_image_is_refused(stand):
    copied = stand.push(signature_image([simple_signing(SIGNER, OTHER.digest)]), tag=signature_tag(OTHER.digest))
    stand.push(copied, tag=TAG)
    assert await stand.reason() == Reason.SUBJECT_MISMATCH


async def test_a_bundle_that_a_lying_list_names_for_another_image_is_refused(stand):
    stand.push(OTHER)
    referrer = stand.attach_bundle(bundle_v3(SIGNER, OTHER.digest), OTHER)
    stand.list_referrers(referrer)
    assert await stand.reason() == Reason.SUBJECT_MISMATCH


KIND = "cosign container image signature"
TWO_DIGESTS = '{{"critical":{{"image":{{"docker-manifest-digest":"{}","{}":"{}"}},"type":"{}"}},"optional":null}}'


def two_digests(field: str) -> bytes:
    """A payload in which one reader finds one image, and another reader the other."""
    return TWO_DIGESTS.format(OTHER.digest, field, IMAGE.digest, KIND).encode()


def with_optional(value: object) -> bytes:
    return json.dumps(json.loads(simple_signing(SIGNER, IMAGE.digest).payload) | {"optional": value}).encode()


CLAIMS = {
    "no subject": (Reason.SUBJECT_MISMATCH, {"subjects": []}),
    "subject by another algorithm": (Reason.SUBJECT_MISMATCH, {"subjects": [f"sha512:{HEX}"]}),
    "subject in capitals": (Reason.SUBJECT_MISMATCH, {"subjects": [IMAGE.digest.upper()]}),
    "provenance": (Reason.NOT_A_SIGNATURE, {"predicate_type": "https://slsa.dev/provenance/v1"}),
    "longer predicate": (Reason.NOT_A_SIGNATURE, {"predicate_type": "https://sigstore.dev/cosign/sign/v1/"}),
    "newer predicate": (Reason.NOT_A_SIGNATURE, {"predicate_type": "https://sigstore.dev/cosign/sign/v2"}),
    "other payload": (Reason.NOT_A_SIGNATURE, {"payload_type": "application/json"}),
    "unknown statement": (Reason.UNREADABLE, {"statement_type": "https://in-toto.io/Statement/v9"}),
    "unsigned": (Reason.UNREADABLE, {"signatures": 0}),
    "signed twice": (Reason.UNREADABLE, {"signatures": 2}),
    "attestation of cosign 2": (Reason.NOT_A_SIGNATURE, {"claim_type": "cosign container image attestation"}),
    "two spellings of a field": (Reason.UNREADABLE, {"payload": two_digests("Docker-Manifest-Digest")}),
    "a field twice": (Reason.UNREADABLE, {"payload": two_digests("docker-manifest-digest")}),
    "optional text": (Reason.UNREADABLE, {"payload": with_optional("text")}),
    "optional list": (Reason.UNREADABLE, {"payload": with_optional([1])}),
    "optional number": (Reason.UNREADABLE, {"payload": with_optional(7)}),
}


@pytest.mark.parametrize("name", CLAIMS)
async def test_a_claim_that_is_not_about_this_image_alone_is_refused(stand, name):
    reason, how = CLAIMS[name]
    stand.attach("cosign-v2" if how.keys() & {"claim_type", "payload"} else "cosign-v3", SIGNER, **how)
    assert await stand.reason() == reason


async def test_one_of_several_subjects_may_be_the_image(stand):
    stand.attach("cosign-v3", SIGNER, subjects=[OTHER.digest, IMAGE.digest])
    assert (await stand.verify()).image.digest == IMAGE.digest


async def test_a_payload_changed_after_signing_is_refused(stand, form):
    if form == "cosign-v2":
        signing = simple_signing(SIGNER, OTHER.digest)
        changed = signing.payload.replace(OTHER.digest.encode(), IMAGE.digest.encode())
        stand.push(signature_image([signing._replace(payload=changed)]), tag=TAG)
    else:
        honest, other = (json.loads(bundle_v3(SIGNER, digest)) for digest in (IMAGE.digest, OTHER.digest))
        other["dsseEnvelope"]["payload"] = honest["dsseEnvelope"]["payload"]
        stand.attach_bundle(json.dumps(other).encode())
    assert await stand.reason() == Reason.SIGNATURE_INVALID


async def test_names_that_a_payload_may_have(stand):
    stand.attach("cosign-v2", SIGNER, reference="elsewhere.test/mirror")
    assert (await stand.verify()).signatures
    named = {
        "Critical": {"Image": {"Docker-manifest-digest": IMAGE.digest}, "Type": "cosign container image signature"}
    }
    stand.attach("cosign-v2", SIGNER, payload=json.dumps(named).encode())
    assert (await stand.verify()).signatures[0].format == "cosign-v2"


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"null", b'{"critical":{}}', b'{"critical":{"image":[],"type":""}}', b"\xff", b"[" * 100_000],
)
async def test_a_payload_that_is_no_claim_is_refused(stand, payload):
    key = SIGSTORE.key()
    signing = simple_signing(key, IMAGE.digest, payload=payload or b" ", tlog=False)
    stand.push(signature_image([signing]), tag=TAG)
    assert await stand.reason(policy(by_key(key))) == Reason.UNREADABLE


def material(**fields: object):
    return lambda bundle: bundle["verificationMaterial"].update(fields)


def entry(**fields: object):
    return lambda bundle: bundle["verificationMaterial"]["tlogEntries"][0].update(fields)


def double_entries(bundle: dict) -> None:
    bundle["verificationMaterial"]["tlogEntries"] *= 2


BUNDLE = bundle_v3(SIGNER, IMAGE.digest)
BUNDLES = {
    "two materials": edited(BUNDLE, material(publicKey={"hint": "x"})),
    "two contents": edited(BUNDLE, lambda bundle: bundle.update(messageSignature={"signature": "AA=="})),
    "two lists": edited(BUNDLE, material(tlog_entries=[])),
    "two entries": edited(BUNDLE, double_entries),
    "no material": edited(BUNDLE, lambda bundle: bundle["verificationMaterial"].pop("certificate")),
    "version": edited(BUNDLE, lambda bundle: bundle.update(mediaType="application/vnd.dev.sigstore.bundle.v9+json")),
    "time": edited(BUNDLE, entry(integratedTime="18446744073709551615")),
    "place": edited(BUNDLE, entry(logIndex="18446744073709551615")),
    "a field twice": b'{"dsseEnvelope": {},' + BUNDLE[1:],
    # `bundle_referrer` writes the predicate of a signature into the manifest's annotations.
    "predicate in the manifest only": bundle_v3(SIGNER, IMAGE.digest, predicate_type="https://example.test/sbom/v1"),
    "manifest signed as a file": message_signature_bundle(SIGNER, IMAGE.manifest),
}


@pytest.mark.parametrize("name", BUNDLES)
async def test_a_bundle_that_could_be_taken_for_something_else_is_refused(stand, name):
    stand.attach_bundle(BUNDLES[name])
    no_signature = name in {"predicate in the manifest only", "manifest signed as a file"}
    assert await stand.reason() == (Reason.NOT_A_SIGNATURE if no_signature else Reason.UNREADABLE)


async def test_a_layer_without_its_signature_is_refused(stand):
    signing = simple_signing(SIGNER, IMAGE.digest).annotated(**{SIGNATURE_ANNOTATION: None})
    stand.push(signature_image([signing]), tag=TAG)
    assert await stand.reason() == Reason.UNREADABLE


async def test_a_payload_of_two_mebibytes_is_not_read(stand, form):
    stand.attach(
        form,
        SIGNER,
        **({"optional": {"a": "x" * (2 << 20)}} if form == "cosign-v2" else {"annotations": {"a": "x" * (2 << 20)}}),
    )
    blobs = len(stand.registry.received("GET", ".*/blobs/.*"))
    assert await stand.reason() == Reason.UNREADABLE
    assert len(stand.registry.received("GET", ".*/blobs/.*")) == blobs


async def test_the_hint_of_another_key_does_not_help(stand):
    ours, other = SIGSTORE.key(), SIGSTORE.key()
    hint = json.loads(bundle_v3(other, IMAGE.digest))["verificationMaterial"]["publicKey"]
    bundle = bundle_v3(ours, IMAGE.digest, tlog=False)
    stand.attach_bundle(edited(bundle, lambda document: document["verificationMaterial"].update(publicKey=hint)))
    assert await stand.reason(policy(by_key(ours, other))) == Reason.SIGNATURE_INVALID
    # To those who know no key of that hint, it says nothing.
    assert (await stand.verify(policy(by_key(ours)))).signatures


async def test_annotations_that_the_policy_demands_must_be_signed(stand, form):
    claim = "optional" if form == "cosign-v2" else "annotations"
    wanted = policy({**keyless(), "annotations": {"env": "prod"}})
    stand.attach(form, SIGNER, **{claim: {"env": "test"}})
    assert await stand.reason(wanted) == Reason.ANNOTATION_MISMATCH
    stand.attach(form, SIGNER, **{claim: {"env": "prod", "team": "acme"}})
    assert (await stand.verify(wanted)).signatures
