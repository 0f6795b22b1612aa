"""What is signed: only a statement about this very image, which every reader reads alike, counts as its signature."""

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

from accelkit.kernelcache.signatures import RejectionReason

TAG = signature_tag(IMAGE.digest)
HEX = IMAGE.digest.removeprefix("sha256:")


async def test_image_without_signatures_is_rejected(stand):
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.NO_SIGNATURES
    assert "cosign sign" in refusal.next_step


async def test_signature_of_another_image_is_rejected(stand, form):
    stand.attach(form, SIGNER, OTHER.digest)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


async def test_signature_image_copied_to_tag_of_another_image_is_rejected(stand):
    copied = stand.push(signature_image([simple_signing(SIGNER, OTHER.digest)]), tag=signature_tag(OTHER.digest))
    stand.push(copied, tag=TAG)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


async def test_bundle_listed_for_wrong_image_is_rejected(stand):
    stand.push(OTHER)
    referrer = stand.attach_bundle(bundle_v3(SIGNER, OTHER.digest), OTHER)
    stand.list_referrers(referrer)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


@pytest.mark.parametrize(
    ("subjects", "accepted"),
    [([OTHER.digest, IMAGE.digest], True), ([], False), ([f"sha512:{HEX}"], False), ([IMAGE.digest.upper()], False)],
    ids=["among others", "none", "other algorithm", "capitals"],
)
async def test_statement_must_have_image_as_subject(stand, subjects, accepted):
    stand.attach("cosign-v3", SIGNER, subjects=subjects)
    if accepted:
        assert (await stand.verify()).image.digest == IMAGE.digest
    else:
        assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


@pytest.mark.parametrize(
    "predicate",
    ["https://slsa.dev/provenance/v1", "https://sigstore.dev/cosign/sign/v1/", "https://sigstore.dev/cosign/sign/v2"],
)
async def test_attestation_is_not_a_signature(stand, predicate):
    stand.attach("cosign-v3", SIGNER, predicate_type=predicate)
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_predicate_type_is_read_from_signed_payload(stand):
    # `bundle_referrer` writes the predicate of a signature into the manifest's annotations.
    stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest, predicate_type="https://example.test/sbom/v1"))
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_signature_of_manifest_file_is_not_an_image_signature(stand):
    stand.attach_bundle(message_signature_bundle(SIGNER, IMAGE.manifest))
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_claim_of_other_type_is_not_a_signature(stand):
    stand.attach("cosign-v2", SIGNER, claim_type="cosign container image attestation")
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_envelope_with_other_payload_type_is_not_a_signature(stand):
    stand.attach("cosign-v3", SIGNER, payload_type="application/json")
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_statement_of_unknown_type_is_rejected(stand):
    stand.attach("cosign-v3", SIGNER, statement_type="https://in-toto.io/Statement/v9")
    assert await stand.reason() == RejectionReason.UNREADABLE


@pytest.mark.parametrize("signatures", [0, 2])
async def test_envelope_must_have_exactly_one_signature(stand, signatures):
    stand.attach("cosign-v3", SIGNER, signatures=signatures)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_payload_modified_after_signing_is_rejected(stand, form):
    if form == "cosign-v2":
        signing = simple_signing(SIGNER, OTHER.digest)
        changed = signing.payload.replace(OTHER.digest.encode(), IMAGE.digest.encode())
        stand.push(signature_image([signing._replace(payload=changed)]), tag=TAG)
    else:
        honest, other = (json.loads(bundle_v3(SIGNER, digest)) for digest in (IMAGE.digest, OTHER.digest))
        other["dsseEnvelope"]["payload"] = honest["dsseEnvelope"]["payload"]
        stand.attach_bundle(json.dumps(other).encode())
    assert await stand.reason() == RejectionReason.SIGNATURE_INVALID


@pytest.mark.parametrize(
    "fields",
    [
        '"docker-manifest-digest":"{other}","Docker-Manifest-Digest":"{ours}"',
        '"docker-manifest-digest":"{other}","docker-manifest-digest":"{ours}"',
    ],
    ids=["two spellings", "twice"],
)
async def test_payload_with_repeated_digest_field_is_rejected(stand, fields):
    named = fields.format(other=OTHER.digest, ours=IMAGE.digest)
    kind = "cosign container image signature"
    payload = f'{{"critical":{{"image":{{{named}}},"type":"{kind}"}},"optional":null}}'
    stand.attach("cosign-v2", SIGNER, payload=payload.encode())
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_capitalized_payload_field_names_are_accepted(stand):
    named = {
        "Critical": {"Image": {"Docker-manifest-digest": IMAGE.digest}, "Type": "cosign container image signature"}
    }
    stand.attach("cosign-v2", SIGNER, payload=json.dumps(named).encode())
    assert (await stand.verify()).signatures[0].format == "cosign-v2"


async def test_repository_name_in_payload_is_ignored(stand):
    stand.attach("cosign-v2", SIGNER, reference="elsewhere.test/mirror")
    assert (await stand.verify()).signatures


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"null", b'{"critical":{}}', b'{"critical":{"image":[],"type":""}}', b"\xff", b"[" * 100_000],
)
async def test_malformed_payload_is_rejected(stand, payload):
    key = SIGSTORE.key()
    signing = simple_signing(key, IMAGE.digest, payload=payload or b" ", tlog=False)
    stand.push(signature_image([signing]), tag=TAG)
    assert await stand.reason(policy(by_key(key))) == RejectionReason.UNREADABLE


@pytest.mark.parametrize("optional", ['"text"', "[1]", "7"])
async def test_optional_payload_field_must_be_an_object(stand, optional):
    honest = json.loads(simple_signing(SIGNER, IMAGE.digest).payload)
    payload = json.dumps(honest | {"optional": json.loads(optional)}).encode()
    stand.attach("cosign-v2", SIGNER, payload=payload)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_bundle_with_repeated_field_is_rejected(stand):
    bundle = bundle_v3(SIGNER, IMAGE.digest)
    stand.attach_bundle(b'{"dsseEnvelope": {},' + bundle[1:])
    assert await stand.reason() == RejectionReason.UNREADABLE


@pytest.mark.parametrize(
    "change",
    [
        lambda bundle: bundle["verificationMaterial"].update(publicKey={"hint": "x"}),
        lambda bundle: bundle.update(messageSignature={"signature": "AA=="}),
        lambda bundle: bundle["verificationMaterial"].update(tlog_entries=[]),
        lambda bundle: bundle["verificationMaterial"].update(
            tlogEntries=bundle["verificationMaterial"]["tlogEntries"] * 2
        ),
        lambda bundle: bundle["verificationMaterial"].pop("certificate"),
        lambda bundle: bundle.update(mediaType="application/vnd.dev.sigstore.bundle.v9+json"),
        lambda bundle: bundle["verificationMaterial"]["tlogEntries"][0].update(integratedTime="18446744073709551615"),
        lambda bundle: bundle["verificationMaterial"]["tlogEntries"][0].update(logIndex="18446744073709551615"),
    ],
    ids=["two materials", "two contents", "two lists", "two entries", "no material", "version", "time", "place"],
)
async def test_ambiguous_or_incomplete_bundle_is_rejected(stand, change):
    stand.attach_bundle(edited(bundle_v3(SIGNER, IMAGE.digest), change))
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_signature_layer_without_annotation_is_rejected(stand):
    signing = simple_signing(SIGNER, IMAGE.digest).annotated(**{SIGNATURE_ANNOTATION: None})
    stand.push(signature_image([signing]), tag=TAG)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_payload_over_size_limit_is_not_fetched(stand, form):
    stand.attach(
        form,
        SIGNER,
        **({"optional": {"a": "x" * (2 << 20)}} if form == "cosign-v2" else {"annotations": {"a": "x" * (2 << 20)}}),
    )
    blobs = len(stand.registry.received("GET", ".*/blobs/.*"))
    assert await stand.reason() == RejectionReason.UNREADABLE
    assert len(stand.registry.received("GET", ".*/blobs/.*")) == blobs


async def test_wrong_key_hint_is_rejected_and_unknown_key_hint_is_ignored(stand):
    ours, other = SIGSTORE.key(), SIGSTORE.key()
    hint = json.loads(bundle_v3(other, IMAGE.digest))["verificationMaterial"]["publicKey"]
    bundle = bundle_v3(ours, IMAGE.digest, tlog=False)
    stand.attach_bundle(edited(bundle, lambda document: document["verificationMaterial"].update(publicKey=hint)))
    assert await stand.reason(policy(by_key(ours, other))) == RejectionReason.SIGNATURE_INVALID
    # To those who know no key of that hint, it says nothing.
    assert (await stand.verify(policy(by_key(ours)))).signatures


async def test_annotations_required_by_policy_must_be_signed(stand, form):
    claim = "optional" if form == "cosign-v2" else "annotations"
    wanted = policy({**keyless(), "annotations": {"env": "prod"}})
    stand.attach(form, SIGNER, **{claim: {"env": "test"}})
    assert await stand.reason(wanted) == RejectionReason.ANNOTATION_MISMATCH
    stand.attach(form, SIGNER, **{claim: {"env": "prod", "team": "acme"}})
    assert (await stand.verify(wanted)).signatures
