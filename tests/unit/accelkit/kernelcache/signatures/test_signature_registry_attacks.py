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
async def test_the_fallback_tag_is_read_whatever_the_referrers_api_answers(stand, handler):
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
async def test_a_list_that_cannot_be_read_is_told_and_not_taken_for_an_empty_one(stand, path, handler):
    stand.registry.on("GET", path, handler)
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_a_bundle_on_the_last_page_is_found(stand):
    bad = [stand.attach_bundle(bundle_v3(ELSE, IMAGE.digest)) for _ in range(3)]
    stand.list_referrers(*bad, stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest)), page=1)
    assert (await stand.verify()).signatures


async def test_pages_without_an_end_are_not_followed_for_ever(stand):
    referrer = stand.attach_bundle(bundle_v3(ELSE, IMAGE.digest))
    stand.registry.on("GET", REFERRERS, misbehaviour.paged_referrers([referrer.descriptor], page=1, endlessly=True))
    assert await stand.reason() == RejectionReason.IDENTITY_MISMATCH


async def test_of_a_hundred_bundles_no_more_than_the_limit_are_read(stand):
    listed = [stand.attach_bundle(edited(bundle_v3(ELSE, IMAGE.digest), lambda _: None)) for _ in range(100)]
    stand.list_referrers(*listed)
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.IDENTITY_MISMATCH
    assert len(refusal.failures) == 64
    assert len(stand.registry.received("GET", ".*/manifests/sha256:.*")) == 64
    assert any("only 64 of 100" in each.message for each in refusal.failures)


async def test_of_more_signatures_than_are_looked_at_it_is_said_how_many_are_not(stand):
    layers = [simple_signing(ELSE, IMAGE.digest, optional={"number": str(number)}) for number in range(70)]
    stand.push(signature_image(layers), tag=signature_tag(IMAGE.digest))
    refusal = await stand.refusal()
    assert any("only 64 of 70" in each.message for each in refusal.failures)


async def test_a_signature_is_found_behind_any_number_of_attestations(stand):
    says = {"annotations": {"dev.sigstore.bundle.predicateType": "https://example.test/sbom/v1"}}
    sboms = [bundle_referrer(f"sbom {number}".encode(), IMAGE).descriptor | says for number in range(70)]
    signature = stand.push(bundle_referrer(bundle_v3(SIGNER, IMAGE.digest), IMAGE))
    stand.registry.on("GET", REFERRERS, misbehaviour.paged_referrers([*sboms, signature.descriptor], page=100))
    assert (await stand.verify()).signatures[0].identity == IDENTITY


# The second is what cosign 3 writes into the fallback tag.
@pytest.mark.parametrize("said", [{}, {"artifactType": "application/vnd.oci.empty.v1+json"}], ids=["nothing", "empty"])
async def test_what_a_list_says_of_a_referrer_does_not_matter(stand, said):
    referrer = stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest))
    bare = {name: value for name, value in referrer.descriptor.items() if name != "artifactType"} | said
    lying = {**stand.push(OTHER).descriptor, "artifactType": referrer.descriptor["artifactType"]}
    stand.registry.on("GET", REFERRERS, misbehaviour.paged_referrers([lying, bare], page=9))
    assert (await stand.verify()).signatures[0].source == f"bundle {referrer.digest}"


async def test_a_referrer_of_another_image_is_refused_by_its_manifest(stand):
    # The bundle is right, and yet nobody attached it to this image.
    referrer = stand.attach_bundle(bundle_v3(SIGNER, IMAGE.digest), OTHER)
    stand.list_referrers(referrer)
    assert await stand.reason() == RejectionReason.SUBJECT_MISMATCH


@pytest.mark.parametrize("layers", [0, 2])
async def test_a_referrer_with_other_than_one_layer_is_refused(stand, layers):
    honest = bundle_referrer(bundle_v3(SIGNER, IMAGE.digest), IMAGE)
    changed = edited(honest.manifest, lambda document: document.update(layers=document["layers"] * layers))
    stand.push(Artifact(changed, honest.blobs))
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_an_index_under_the_tag_of_signatures_is_refused(stand):
    stand.push(fallback_index([]), tag=signature_tag(IMAGE.digest))
    assert await stand.reason() == RejectionReason.UNREADABLE


@pytest.mark.parametrize("form", FORMATS)
async def test_a_registry_that_lies_about_the_digest_is_refused(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", V1, misbehaviour.lying_digest(OTHER.digest))
    assert await stand.reason() == RejectionReason.UNREADABLE


async def test_other_bytes_under_a_digest_are_refused(stand):
    stand.attach("cosign-v3", SIGNER)
    stand.registry.on("GET", f"/v2/{REPOSITORY}/manifests/{IMAGE.digest}", misbehaviour.answering(body=OTHER.manifest))
    assert await stand.reason(version=f"@{IMAGE.digest}") == RejectionReason.UNREADABLE


@pytest.mark.parametrize("form", FORMATS)
async def test_a_signature_changed_on_the_way_is_refused(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", ".*/blobs/.*", lambda request: web.Response(body=stored(stand, request)[:-1] + b" "))
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.UNREADABLE
    assert "changed or damaged" in refusal.message


def stored(stand, request: web.Request) -> bytes:
    """The blob that a request is about."""
    return stand.registry.honest.blob(REPOSITORY, request.path.rpartition("/")[2])


async def test_a_tag_that_moves_leaves_the_verdict_with_what_was_verified(stand):
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


async def test_annotations_that_claim_a_verdict_claim_nothing(stand):
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


async def test_credentials_do_not_follow_a_redirect_to_another_host(stand):
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
async def test_a_registry_in_trouble_leaves_the_verdict_open(stand, path):
    stand.registry.on("GET", path, misbehaviour.failing(503))
    refusal = await stand.refusal()
    assert refusal.reason == RejectionReason.REGISTRY_UNAVAILABLE
    assert refusal.reason.retryable


@pytest.mark.parametrize("form", FORMATS)
async def test_a_signature_that_does_not_count_decides_nothing_while_others_cannot_be_read(stand, form):
    stand.attach(form, ELSE)
    assert await stand.reason() == RejectionReason.IDENTITY_MISMATCH
    stand.registry.on("GET", REFERRERS if form == "cosign-v2" else SIG, misbehaviour.failing(503))
    assert await stand.reason() == RejectionReason.REGISTRY_UNAVAILABLE


@pytest.mark.parametrize("form", FORMATS)
async def test_a_good_signature_is_enough_while_others_cannot_be_read(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", REFERRERS if form == "cosign-v2" else SIG, misbehaviour.failing(503))
    assert (await stand.verify()).signatures[0].format == form


@pytest.mark.parametrize("form", FORMATS)
async def test_a_signature_that_cannot_be_fetched_for_now_leaves_the_verdict_open(stand, form):
    stand.attach(form, SIGNER)
    stand.registry.on("GET", ".*/blobs/.*", misbehaviour.failing(503))
    assert await stand.reason() == RejectionReason.REGISTRY_UNAVAILABLE


async def test_what_others_write_into_messages_is_short_and_plain(stand):
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


async def test_an_unreadable_bundle_beside_a_good_one_does_not_hurt(stand):
    stand.attach_bundle(b"garbage")
    stand.attach("cosign-v3", SIGNER)
    assert (await stand.verify()).signatures


async def test_a_registry_that_never_answers_has_a_deadline(stand):
    stand.registry.on("GET", REFERRERS, misbehaviour.stalled())
    assert await stand.reason(patience_seconds=0.2) == RejectionReason.REGISTRY_UNAVAILABLE


async def test_an_image_that_no_policy_covers_is_refused_and_nothing_is_fetched(stand):
    stand.attach("cosign-v3", SIGNER)
    refusal = await stand.refusal(policy({"keyless": {"issuer": "i", "subject": "s"}}, images=["quay.io/acme/**"]))
    assert refusal.reason == RejectionReason.NOT_COVERED
    assert stand.registry.requests == []


async def test_a_policy_changed_after_the_verdict_shows_in_its_digest(stand):
    stand.attach("cosign-v3", SIGNER)
    before = await stand.verify()
    path = policy_file(stand.folder, policy({"keyless": {"issuer": "i", "subject": "s"}}))
    assert load_policies(path, stand.root).digest != before.policy_digest
