"""Verification of an image: resolve it to a digest, gather its signatures in both formats, judge them by policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.documents import Descriptor, Manifest
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RawManifest, RegistryClient
from accelkit.kernelcache.signatures import bundles, simple_signing
from accelkit.kernelcache.signatures.evidence import MAX_SIGNATURE_BYTES, SignatureEvidence, SignatureMaterial
from accelkit.kernelcache.signatures.findings import (
    Failure,
    RejectedError,
    RejectionReason,
    Signature,
    UnverifiedError,
    choose_nearest,
)
from accelkit.kernelcache.signatures.judging import judge_signature
from accelkit.kernelcache.signatures.policy import SignerPolicies, SignerPolicy
from accelkit.kernelcache.signatures.trust import TrustRoot

# Signatures of one image that are looked at, per format, and failures that are kept.
MAX_SIGNATURES = 64
MAX_FAILURES = 64


@dataclass(frozen=True)
class Verification:
    """A verdict in favour of an image.

    Attributes:
        image: pinned to the digest that was verified.
        manifest: what has that digest.
        signatures: one per policy that covers the image.
        policy_digest: of the policies and what they refer to.
        material: all signatures that were attached and could be read, whoever made them.
    """

    image: Reference
    manifest: RawManifest
    signatures: tuple[Signature, ...]
    policy_digest: str
    material: tuple[SignatureMaterial, ...] = ()


@dataclass(frozen=True)
class _Found:
    material: tuple[SignatureMaterial, ...]
    failures: tuple[Failure, ...] = ()
    evidence: tuple[SignatureEvidence, ...] = ()


async def verify_image(
    client: RegistryClient,
    image: Reference,
    policies: SignerPolicies,
    *,
    namespace: str | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    patience_seconds: float = 300.0,
) -> Verification:
    """Verify that every policy that covers an image is satisfied by one of its signatures.

    Args:
        client: an open one.
        image: by tag or digest. What is verified is the digest; use that from here on, since tags move.
        policies: who may sign.
        namespace: for which namespace; None for no particular one.
        clock: the time at which certificates must be valid that nothing else dates.
        patience_seconds: how long all reading together may take.

    Raises:
        UnverifiedError: no policy covers it, or one is not satisfied, or nothing could be learnt.
    """
    covering = _select(policies, image, namespace)
    try:
        async with asyncio.timeout(patience_seconds):
            manifest = await client.read_manifest(image)
            pinned = image.with_digest(manifest.digest)
            found = await _gather(client, pinned)
    except RegistryError as exc:
        failure = _convert_error(exc)
        raise UnverifiedError(
            f"{image} cannot be verified: {failure.message}", (failure,), next_step=exc.next_step
        ) from exc
    except TimeoutError as exc:
        failure = Failure(
            RejectionReason.REGISTRY_UNAVAILABLE, f"{image.registry} took longer than {patience_seconds:g} seconds"
        )
        raise UnverifiedError(f"{image} cannot be verified: {failure.message}", (failure,)) from exc
    now = clock()

    def satisfy_all() -> tuple[Signature, ...]:
        return tuple(_satisfy(policy, found, policies.trust, now, pinned) for policy in covering)

    # Signatures are arithmetic, and a service has other things to do meanwhile.
    signatures = await asyncio.to_thread(satisfy_all)
    return Verification(pinned, manifest, signatures, policies.digest, found.material)


def judge_material(
    image: Reference,
    material: Iterable[SignatureMaterial],
    policies: SignerPolicies,
    *,
    namespace: str | None = None,
    now: datetime,
) -> tuple[Signature, ...]:
    """Judge signatures of an image that were kept, without a request, as those that a registry gives.

    Args:
        image: by digest, under the name for which policies are asked.
        material: as `Verification` has it.
        policies: who may sign.
        namespace: for which namespace; None for no particular one.
        now: the time at which certificates must be valid that nothing else dates.

    Returns:
        One signature per policy that covers the image.

    Raises:
        UnverifiedError: no policy covers it, or one is not satisfied by these signatures; a registry may have others.
    """
    covering = _select(policies, image, namespace)
    found = _read_evidence(image, _Found(tuple(material)))
    return tuple(_satisfy(policy, found, policies.trust, now, image) for policy in covering)


def _select(policies: SignerPolicies, image: Reference, namespace: str | None) -> tuple[SignerPolicy, ...]:
    if covering := policies.select(image, namespace):
        return covering
    where = f" for namespace {namespace}" if namespace else ""
    failure = Failure(RejectionReason.NOT_COVERED, f"no signer policy covers {image.name}{where}")
    raise UnverifiedError(
        failure.message, (failure,), next_step="add a policy that names who may sign it, or give the namespace"
    )


def _read_evidence(image: Reference, found: _Found) -> _Found:
    """Read the signatures that were found; those that cannot be read are failures."""
    digest, evidence, failures = image.require_digest(), [], [*found.failures]
    for each in found.material:
        try:
            if each.annotations is None:
                evidence.append(bundles.read_image_evidence(each.content, digest, each.source))
            else:
                evidence.append(simple_signing.read_image_evidence(each.content, each.annotations, digest, each.source))
        except RejectedError as exc:
            failures.append(Failure(exc.reason, exc.message, each.source))
    return _Found(found.material, tuple(failures), tuple(evidence))


def _satisfy(policy: SignerPolicy, found: _Found, trust: TrustRoot, now: datetime, image: Reference) -> Signature:
    failures = list(found.failures)
    for evidence in found.evidence:
        for signer in policy.signers:
            try:
                held = judge_signature(evidence, signer, trust, now)
            except RejectedError as exc:
                failures.append(Failure(exc.reason, exc.message, evidence.source, signer.name))
                continue
            return Signature(
                policy=policy.name,
                signer=signer.name,
                format=evidence.format,
                identity=held.identity,
                issuer=held.issuer,
                log_index=held.log_index,
                signed_at=held.signed_at,
                source=evidence.source,
            )
    if not failures:
        failures = [Failure(RejectionReason.NO_SIGNATURES, "it has no signatures")]
    first = choose_nearest(tuple(failures))
    kept = (first, *(each for each in failures if each is not first))[:MAX_FAILURES]
    next_step = {
        RejectionReason.NO_SIGNATURES: f"sign it: cosign sign {image.name}@{image.digest}",
        RejectionReason.NOT_A_SIGNATURE: f"sign it: cosign sign {image.name}@{image.digest}",
        RejectionReason.IDENTITY_MISMATCH: f"if that identity may sign it, add it to the policy {policy.name}",
        RejectionReason.LOG_ENTRY_MISSING: (
            "sign with a transparency log, or let the signer say transparencyLog: notRequired"
        ),
        RejectionReason.TRUST_ROOT_UNAVAILABLE: "give the trusted root of the Sigstore instance that signed it",
    }.get(first.reason, "")
    raise UnverifiedError(f"{image} does not satisfy policy {policy.name}: {first}", kept, next_step=next_step)


async def _gather(client: RegistryClient, image: Reference) -> _Found:
    """All that can be read. What cannot is a failure beside it: one good signature is enough, wherever it lies."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each(client, image)) for each in (_gather_bundles, _gather_simple)]
    new, old = (task.result() for task in tasks)
    found = _Found((*new.material, *old.material), (*new.failures, *old.failures))
    return await asyncio.to_thread(_read_evidence, image, found)


async def _gather_bundles(client: RegistryClient, image: Reference) -> _Found:
    referrers = await client.list_referrers(image)
    material: list[SignatureMaterial] = []
    failures = [_convert_error(problem, "referrers") for problem in referrers.problems]
    candidates = _order_candidates(referrers.descriptors)
    if len(candidates) > MAX_SIGNATURES:
        failures.append(
            Failure(RejectionReason.UNREADABLE, f"only {MAX_SIGNATURES} of {len(candidates)} bundles are looked at")
        )
    for each in candidates[:MAX_SIGNATURES]:
        source = f"bundle {each.digest}"
        try:
            content = await _read_bundle(client, image, each)
            if content is not None:
                material.append(SignatureMaterial(source, content))
        except RejectedError as exc:
            failures.append(Failure(exc.reason, exc.message, source))
        except (RegistryError, CacheError) as exc:
            failures.append(_convert_error(exc, source))
    return _Found(tuple(material), tuple(failures))


def _order_candidates(referrers: tuple[Descriptor, ...]) -> list[Descriptor]:
    """Return the referrers that may be bundles, those first that are said to be, and attestations after signatures.

    An entry with another type is none. Some lists have no type, or that of the empty configuration, which is also what
    cosign 3 itself writes into the fallback tag: then the manifest tells.
    """
    candidates = [each for each in referrers if bundles.may_be_bundle(each)]
    return sorted(candidates, key=_rank)


def _rank(referrer: Descriptor) -> int:
    """Return how early an entry is looked at; no more than an order, since what a bundle states, it says itself."""
    if not referrer.artifact_type.startswith(bundles.BUNDLE_TYPE_PREFIX):
        return 2
    # Attestations of every night would crowd the signature out.
    stated = referrer.annotations.get(bundles.PREDICATE_ANNOTATION, bundles.SIGN_PREDICATE)
    return 0 if stated == bundles.SIGN_PREDICATE else 1


async def _read_bundle(client: RegistryClient, image: Reference, referrer: Descriptor) -> bytes | None:
    """Return the bundle of a referrer; None where the referrer is something else."""
    document = (await client.read_manifest(image.with_digest(referrer.digest))).decode()
    if not isinstance(document, Manifest) or not document.artifact.startswith(bundles.BUNDLE_TYPE_PREFIX):
        return None
    if document.subject is None or document.subject.digest != image.digest:
        raise RejectedError(
            RejectionReason.SUBJECT_MISMATCH, f"its manifest refers to another image than {image.digest}"
        )
    if len(document.layers) != 1:
        raise RejectedError(RejectionReason.UNREADABLE, f"it has {len(document.layers)} layers instead of one")
    return await client.read_blob(image, document.layers[0], limit=MAX_SIGNATURE_BYTES)


async def _gather_simple(client: RegistryClient, image: Reference) -> _Found:
    """Return the layers of the signature images that cosign 2 tags: the registry's, and those of its mirrors."""
    tag = simple_signing.build_signature_tag(image.require_digest())
    manifests, problems = await client.read_manifests(image.with_tag(tag))
    failures = [_convert_error(problem, tag) for problem in problems]
    layers: dict[tuple[str, str], Descriptor] = {}
    for raw in manifests:
        try:
            layers |= {_identify(layer): layer for layer in _list_simple_layers(raw)}
        except CacheError as exc:
            failures.append(_convert_error(exc, tag))
    material: list[SignatureMaterial] = []
    if len(layers) > MAX_SIGNATURES:
        failures.append(
            Failure(RejectionReason.UNREADABLE, f"only {MAX_SIGNATURES} of {len(layers)} signatures are looked at", tag)
        )
    for number, layer in enumerate(list(layers.values())[:MAX_SIGNATURES], 1):
        source = f"{tag} layer {number}"
        try:
            payload = await client.read_blob(image, layer, limit=MAX_SIGNATURE_BYTES)
            material.append(SignatureMaterial(source, payload, dict(layer.annotations)))
        except RegistryError as exc:
            failures.append(_convert_error(exc, source))
    return _Found(tuple(material), tuple(failures))


def _list_simple_layers(raw: RawManifest) -> list[Descriptor]:
    document = raw.decode()
    if not isinstance(document, Manifest):
        raise CacheError("it is an index, not an image")
    return [each for each in document.layers if each.media_type == simple_signing.PAYLOAD_TYPE]


def _identify(layer: Descriptor) -> tuple[str, str]:
    # Several signatures of one image have the same payload; what tells them apart are the annotations.
    return layer.digest, repr(sorted(layer.annotations.items()))


def _convert_error(exc: RegistryError | CacheError, source: str = "") -> Failure:
    answered = isinstance(exc, RegistryError) and exc.beside_mirrors
    away = isinstance(exc, RegistryError) and exc.retryable
    reason = RejectionReason.REGISTRY_UNAVAILABLE if away else RejectionReason.UNREADABLE
    return Failure(reason, exc.message, source, beside_mirrors=answered)
