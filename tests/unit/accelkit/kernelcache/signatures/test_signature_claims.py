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


async def test_an_image_without_signatures_is_refused(stand):
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.NO_SIGNATURES
    assert "cosign sign" in refusal.next_step


async def test_the_signature_of_another_image_is_refused(stand, form):
    stand.attach(form, SIGNER, OTHER.digest)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


async def test_a_signature_image_copied_to_the_tag_of_another_image_is_refused(stand):
    copied = stand.push(signature_image([simple_signing(SIGNER, OTHER.digest)]), tag=signature_tag(OTHER.digest))
    stand.push(copied, tag=TAG)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


async def test_a_bundle_that_a_lying_list_names_for_another_image_is_refused(stand):
    stand.push(OTHER)
    referrer = stand.attach_bundle(bundle_v3(SIGNER, OTHER.digest), OTHER)
    stand.list_referrers(referrer)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


@pytest.mark.parametrize(
    ("subjects", "accepted"),
    [([OTHER.digest, IMAGE.digest], True), ([], False), ([f"sha512:{HEX}"], False), ([IMAGE.digest.upper()], False)],
    ids=["among others", "none", "other algorithm", "capitals"],
)
async def test_one_subject_of_a_statement_must_be_the_image(stand, subjects, accepted):
    stand.attach("cosign-v3", SIGNER, subjects=subjects)
    if accepted:
        assert (await stand.verify()).image.digest == IMAGE.digest
    else:
        assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


@pytest.mark.parametrize(
    "predicate",
    ["https://slsa.dev/provenance/v1", "https://sigstore.dev/cosign/sign/v1/", "https://sigstore.dev/cosign/sign/v2"],
)
async def test_an_attestation_is_no_signature(stand, predicate):
    stand.attach("cosign-v3", SIGNER, predicate_type=predicate)
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_the_predicate_is_read_from_what_is_signed_not_from_the_manifest(stand):
    # `bundle_referrer` writes the predicate of a signature into the manifest's annotations.
    stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest, predicate_type="https://example.test/sbom/v1"))
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_a_signature_of_the_manifest_as_a_file_is_no_signature_of_the_image(stand):
    stand.attach_bundle(message_signature_bundle(SIGNER, IMAGE.manifest))
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_a_claim_of_another_kind_is_no_signature(stand):
    stand.attach("cosign-v2", SIGNER, claim_type="cosign container image attestation")
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_an_envelope_of_another_payload_is_no_signature(stand):
    stand.attach("cosign-v3", SIGNER, payload_type="application/json")
    assert await stand.reason() == RejectionReason.NOT_A_SIGNATURE


async def test_a_statement_of_an_unknown_kind_is_refused(stand):
    stand.attach("cosign-v3", SIGNER, statement_type="https://in-toto.io/Statement/v9")
    assert await stand.reason() == RejectionReason.UNREADABLE


@pytest.mark.parametrize("signatures", [0, 2])
async def test_an_envelope_without_exactly_one_signature_is_refused(stand, signatures):
    stand.attach("cosign-v3", SIGNER, signatures=signatures)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_a_payload_changed_after_signing_is_refused(stand, form):
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
async def test_a_payload_that_two_readers_read_differently_is_refused(stand, fields):
    named = fields.format(other=OTHER.digest, ours=IMAGE.digest)
    kind = "cosign container image signature"
    payload = f'{{"critical":{{"image":{{{named}}},"type":"{kind}"}},"optional":null}}'
    stand.attach("cosign-v2", SIGNER, payload=payload.encode())
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_a_payload_may_spell_its_fields_as_the_formats_example_does(stand):
    named = {
        "Critical": {"Image": {"Docker-manifest-digest": IMAGE.digest}, "Type": "cosign container image signature"}
    }
    stand.attach("cosign-v2", SIGNER, payload=json.dumps(named).encode())
    assert (await stand.verify()).signatures[0].format == "cosign-v2"


async def test_the_repository_that_a_payload_names_does_not_matter(stand):
    stand.attach("cosign-v2", SIGNER, reference="elsewhere.test/mirror")
    assert (await stand.verify()).signatures


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"null", b'{"critical":{}}', b'{"critical":{"image":[],"type":""}}', b"\xff", b"[" * 100_000],
)
async def test_a_payload_that_is_no_claim_is_refused(stand, payload):
    key = SIGSTORE.key()
    signing = simple_signing(key, IMAGE.digest, payload=payload or b" ", tlog=False)
    stand.push(signature_image([signing]), tag=TAG)
    assert await stand.reason(policy(by_key(key))) == RejectionReason.UNREADABLE


@pytest.mark.parametrize("optional", ['"text"', "[1]", "7"])
async def test_what_a_payload_adds_must_be_fields(stand, optional):
    honest = json.loads(simple_signing(SIGNER, IMAGE.digest).payload)
    payload = json.dumps(honest | {"optional": json.loads(optional)}).encode()
    stand.attach("cosign-v2", SIGNER, payload=payload)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_a_bundle_with_a_field_twice_is_refused(stand):
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
async def test_a_bundle_that_could_be_taken_for_two_things_or_none_is_refused(stand, change):
    stand.attach_bundle(edited(bundle_v3(SIGNER, IMAGE.digest), change))
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_a_layer_without_its_signature_is_refused(stand):
    signing = simple_signing(SIGNER, IMAGE.digest).annotated(**{SIGNATURE_ANNOTATION: None})
    stand.push(signature_image([signing]), tag=TAG)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_a_payload_of_two_mebibytes_is_not_read(stand, form):
    stand.attach(
        form,
        SIGNER,
        **({"optional": {"a": "x" * (2 << 20)}} if form == "cosign-v2" else {"annotations": {"a": "x" * (2 << 20)}}),
    )
    blobs = len(stand.registry.received("GET", ".*/blobs/.*"))
    assert await stand.reason() == RejectionReason.UNREADABLE
    assert len(stand.registry.received("GET", ".*/blobs/.*")) == blobs


async def test_the_hint_of_another_key_does_not_help(stand):
    ours, other = SIGSTORE.key(), SIGSTORE.key()
    hint = json.loads(bundle_v3(other, IMAGE.digest))["verificationMaterial"]["publicKey"]
    bundle = bundle_v3(ours, IMAGE.digest, tlog=False)
    stand.attach_bundle(edited(bundle, lambda document: document["verificationMaterial"].update(publicKey=hint)))
    assert await stand.reason(policy(by_key(ours, other))) == RejectionReason.SIGNATURE_INVALID
    # To those who know no key of that hint, it says nothing.
    assert (await stand.verify(policy(by_key(ours)))).signatures


async def test_annotations_that_the_policy_demands_must_be_signed(stand, form):
    claim = "optional" if form == "cosign-v2" else "annotations"
    wanted = policy({**keyless(), "annotations": {"env": "prod"}})
    stand.attach(form, SIGNER, **{claim: {"env": "test"}})
    assert await stand.reason(wanted) == RejectionReason.ANNOTATION_MISMATCH
    stand.attach(form, SIGNER, **{claim: {"env": "prod", "team": "acme"}})
    assert (await stand.verify(wanted)).signatures
