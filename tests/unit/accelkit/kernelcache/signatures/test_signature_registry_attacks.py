"""Registries that lie, move tags, drop or bury signatures, or fail: the verdict is right, or it stays open."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from private_sigstore import (
    bundle_referrer,
    bundle_v3,
    edited,
    fallback_index,
    fallback_tag,
    signature_image,
    signature_tag,
    simple_signing,
)
from registries import misbehaviour
from registries.artifact import Artifact
from registries.hostile import HostileRegistry
from registries.memory import INDEX
from signing_stand import (
    FORMATS,
    IDENTITY,
    IMAGE,
    OTHER,
    REPOSITORY,
    SIGNER,
    SIGSTORE,
    policy,
    policy_file,
)

from accelkit.kernelcache.registry import Login
from accelkit.kernelcache.signatures import RejectionReason, load_policies

REFERRERS = f"/v2/{REPOSITORY}/referrers/.*"
SIG = f"/v2/{REPOSITORY}/manifests/{signature_tag(IMAGE.digest)}"
FALLBACK = f"/v2/{REPOSITORY}/manifests/{fallback_tag(IMAGE.digest)}"
V1 = f"/v2/{REPOSITORY}/manifests/v1"
ELSE = SIGSTORE.identity(IDENTITY.replace("main", "fork"))


@pytest.mark.parametrize(
    "handler",
    [
        *(misbehaviour.failing(status) for status in (404, 405, 501)),
        misbehaviour.paged_referrers([], page=1),
        misbehaviour.answering(body=b"<html>", media_type="text/html"),
        misbehaviour.answering(body=IMAGE.manifest, media_type=INDEX),
        misbehaviour.answering(body=b'{"manifests":' + b"[" * 100_000, media_type=INDEX),
        misbehaviour.endless(INDEX),
    ],
    ids=["404", "405", "501", "empty", "page", "image", "deep", "endless"],
)
async def test_fallback_tag_is_read_for_any_referrers_api_response(stand, handler):
    referrer = stand.push(bundle_referrer(bundle_v3(SIGNER, IMAGE.digest), IMAGE))
    stand.push(fallback_index([referrer]), tag=fallback_tag(IMAGE.digest))
    stand.registry.on("GET", REFERRERS, handler)
    assert (await stand.verify()).signatures[0].format == "cosign-v3"


@pytest.mark.parametrize(
    "handler",
    [misbehaviour.answering(body=b"garbage"), misbehaviour.answering(body=IMAGE.manifest), misbehaviour.endless(INDEX)],
    ids=["garbage", "image", "endless"],
)
@pytest.mark.parametrize("path", [REFERRERS, FALLBACK])
async def test_unreadable_signature_list_is_not_treated_as_empty(stand, path, handler):
    stand.registry.on("GET", path, handler)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_bundle_on_last_page_is_found(stand):
    bad = [stand.attach_bundle(bundle_v3(ELSE, IMAGE.digest)) for _ in range(3)]
    stand.list_referrers(*bad, stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest)), page=1)
    assert (await stand.verify()).signatures


async def test_endless_referrer_pages_are_bounded(stand):
    referrer = stand.attach_bundle(bundle_v3(ELSE, IMAGE.digest))
    stand.registry.on("GET", REFERRERS, misbehaviour.paged_referrers([referrer.descriptor], page=1, endlessly=True))
    assert await stand.reason() == RejectionReason.IDENTITY_MISMATCH


async def test_number_of_bundles_read_is_limited(stand):
    listed = [stand.attach_bundle(edited(bundle_v3(ELSE, IMAGE.digest), lambda _: None)) for _ in range(100)]
    stand.list_referrers(*listed)
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.IDENTITY_MISMATCH
    assert len(refusal.failures) == 64
    assert len(stand.registry.received("GET", ".*/manifests/sha256:.*")) == 64
    assert any("only 64 of 100" in each.message for each in refusal.failures)


async def test_error_reports_number_of_skipped_signatures(stand):
    layers = [simple_signing(ELSE, IMAGE.digest, optional={"number": str(number)}) for number in range(70)]
    stand.push(signature_image(layers), tag=signature_tag(IMAGE.digest))
    refusal = await stand.refusal()
    assert any("only 64 of 70" in each.message for each in refusal.failures)


async def test_signature_after_many_attestations_is_found(stand):
    says = {"annotations": {"dev.sigstore.bundle.predicateType": "https://example.test/sbom/v1"}}
    sboms = [bundle_referrer(f"sbom {number}".encode(), IMAGE).descriptor | says for number in range(70)]
    signature = stand.push(bundle_referrer(bundle_v3(SIGNER, IMAGE.digest), IMAGE))
    stand.registry.on("GET", REFERRERS, misbehaviour.paged_referrers([*sboms, signature.descriptor], page=100))
    assert (await stand.verify()).signatures[0].identity == IDENTITY


# The second is what cosign 3 writes into the fallback tag.
@pytest.mark.parametrize("said", [{}, {"artifactType": "application/vnd.oci.empty.v1+json"}], ids=["nothing", "empty"])
async def test_descriptor_metadata_of_referrer_is_ignored(stand, said):
    referrer = stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest))
    bare = {name: value for name, value in referrer.descriptor.items() if name != "artifactType"} | said
    lying = {**stand.push(OTHER).descriptor, "artifactType": referrer.descriptor["artifactType"]}
    stand.registry.on("GET", REFERRERS, misbehaviour.paged_referrers([lying, bare], page=9))
    assert (await stand.verify()).signatures[0].source == f"bundle {referrer.digest}"


async def test_referrer_manifest_with_other_subject_is_rejected(stand):
    # The bundle is right, and yet nobody attached it to this image.
    referrer = stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest), OTHER)
    stand.list_referrers(referrer)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


@pytest.mark.parametrize("layers", [0, 2])
async def test_referrer_without_exactly_one_layer_is_rejected(stand, layers):
    honest = bundle_referrer(bundle_v3(SIGNER, IMAGE.digest), IMAGE)
    changed = edited(honest.manifest, lambda document: document.update(layers=document["layers"] * layers))
    stand.push(Artifact(changed, honest.blobs))
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_index_at_signature_tag_is_rejected(stand):
    stand.push(fallback_index([]), tag=signature_tag(IMAGE.digest))
    assert await stand.reason() == RejectionReason.UNREADABLE


@pytest.mark.parametrize("form", FORMATS)
async def test_false_digest_header_is_rejected(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", V1, misbehaviour.lying_digest(OTHER.digest))
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_manifest_that_does_not_match_digest_is_rejected(stand):
    stand.attach("cosign-v3", SIGNER)
    stand.registry.on("GET", f"/v2/{REPOSITORY}/manifests/{IMAGE.digest}", misbehaviour.answering(body=OTHER.manifest))
    assert await stand.reason(version=f"@{IMAGE.digest}") == RejectionReason.UNREADABLE


@pytest.mark.parametrize("form", FORMATS)
async def test_signature_modified_in_transit_is_rejected(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", ".*/blobs/.*", lambda request: web.Response(body=stored(stand, request)[:-1] + b" "))
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.UNREADABLE
    assert "changed or damaged" in refusal.message


def stored(stand, request: web.Request) -> bytes:
    """The blob that a request is about."""
    return stand.registry.honest.blob(REPOSITORY, request.path.rpartition("/")[2])


async def test_tag_moved_after_verification_keeps_verified_digest(stand):
    stand.attach("cosign-v3", SIGNER)
    answers = [IMAGE.manifest]
    moved = misbehaviour.answering(body=OTHER.manifest, media_type=OTHER.media_type)

    def moving(request: web.Request) -> web.StreamResponse | None:
        return web.Response(body=answers.pop(), content_type=IMAGE.media_type) if answers else moved(request)

    stand.registry.on("GET", V1, moving)
    verification = await stand.verify()
    assert verification.image.digest == IMAGE.digest
    assert verification.manifest.content == IMAGE.manifest
    assert verification.image.version == IMAGE.digest
    assert await stand.reason() == RejectionReason.NO_SIGNATURES


async def test_annotations_with_claimed_results_are_ignored(stand):
    claims = {
        "gkm.io/resolvedDigest": IMAGE.digest,
        "kyverno.io/verify-images": json.dumps({f"registry.test/app@{IMAGE.digest}": "pass"}),
        "dev.sigstore.bundle.content": "dsse-envelope",
        "dev.sigstore.bundle.predicateType": "https://sigstore.dev/cosign/sign/v1",
        "dev.cosignproject.cosign/signature": simple_signing(SIGNER, IMAGE.digest).annotations[
            "dev.cosignproject.cosign/signature"
        ],
    }
    stand.push(Artifact(edited(IMAGE.manifest, lambda document: document.update(annotations=claims))), tag="v1")
    assert await stand.reason() == RejectionReason.NO_SIGNATURES


async def test_credentials_are_not_sent_to_redirect_target(stand):
    stand.attach("cosign-v3", SIGNER)
    stand.login = Login("reader", "open sesame")
    with HostileRegistry() as other:
        other.on("GET", ".*/blobs/.*", lambda request: web.Response(body=stored(stand, request)))
        stand.plain_http.add(other.host)
        stand.registry.on("GET", ".*/blobs/.*", misbehaviour.redirecting(other.url))
        stand.registry.on("*", ".*", misbehaviour.basic_auth("reader", "open sesame"))
        assert (await stand.verify()).signatures
        # The guard stands before the redirect, so here the password was given.
        assert [each for each in stand.registry.received("GET", ".*/blobs/.*") if each.authorization]
        assert {each.authorization for each in other.requests} == {None}


@pytest.mark.parametrize("path", [V1, REFERRERS, SIG, FALLBACK], ids=["image", "referrers", "sig", "fallback"])
async def test_failing_registry_is_a_retryable_failure(stand, path):
    stand.registry.on("GET", path, misbehaviour.failing(503))
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.REGISTRY_UNAVAILABLE
    assert refusal.reason.retryable


@pytest.mark.parametrize("form", FORMATS)
async def test_untrusted_signature_is_not_final_while_other_list_is_unavailable(stand, form):
    stand.attach(form, ELSE)
    assert await stand.reason() == RejectionReason.IDENTITY_MISMATCH
    stand.registry.on("GET", REFERRERS if form == "cosign-v2" else SIG, misbehaviour.failing(503))
    assert await stand.reason() == RejectionReason.REGISTRY_UNAVAILABLE


@pytest.mark.parametrize("form", FORMATS)
async def test_valid_signature_is_sufficient_while_other_list_is_unavailable(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", REFERRERS if form == "cosign-v2" else SIG, misbehaviour.failing(503))
    assert (await stand.verify()).signatures[0].format == form


@pytest.mark.parametrize("form", FORMATS)
async def test_unfetchable_signature_is_reported_as_registry_unavailable(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", ".*/blobs/.*", misbehaviour.failing(503))
    assert await stand.reason() == RejectionReason.REGISTRY_UNAVAILABLE


async def test_untrusted_text_in_messages_is_sanitized_and_shortened(stand):
    shouting = b"\x1b[31m" + b"!" * 100_000
    stand.attach("cosign-v3", SIGNER, payload_type=shouting.decode())
    refusals = [await stand.refusal()]
    stand.registry.on("GET", V1, misbehaviour.answering(403, shouting[:1000]))
    refusals.append(await stand.refusal())
    for refusal in refusals:
        for message in (refusal.message, *(each.message for each in refusal.failures)):
            assert "!" in message
            assert message.isprintable()
            assert len(message) < 1000


async def test_unreadable_bundle_does_not_affect_valid_signature(stand):
    stand.attach_bundle(b"garbage")
    stand.attach("cosign-v3", SIGNER)
    assert (await stand.verify()).signatures


async def test_unresponsive_registry_times_out(stand):
    stand.registry.on("GET", REFERRERS, misbehaviour.stalled())
    assert await stand.reason(patience_seconds=0.2) == RejectionReason.REGISTRY_UNAVAILABLE


async def test_image_without_matching_policy_is_rejected_without_requests(stand):
    stand.attach("cosign-v3", SIGNER)
    refusal = await stand.refusal(policy({"keyless": {"issuer": "i", "subject": "s"}}, images=["quay.io/acme/**"]))
    assert refusal.reason == RejectionReason.NOT_COVERED
    assert stand.registry.requests == []


async def test_policy_change_alters_policy_digest(stand):
    stand.attach("cosign-v3", SIGNER)
    before = await stand.verify()
    path = policy_file(stand.folder, policy({"keyless": {"issuer": "i", "subject": "s"}}))
    assert load_policies(path, stand.root).digest != before.policy_digest
