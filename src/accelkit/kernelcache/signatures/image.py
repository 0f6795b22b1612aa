"""Image verification: resolution to a digest, download of signatures from cosign 2 and 3, and policy evaluation."""

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
from accelkit.kernelcache.signatures.signature_check import judge_signature
from accelkit.kernelcache.signatures.signer_policy import SignerPolicies, SignerPolicy
from accelkit.kernelcache.signatures.trust import TrustRoot

# The limits for one image: the number of verified signatures per format, and of stored failures.
MAX_SIGNATURES = 64
MAX_FAILURES = 64


@dataclass(frozen=True)
class Verification:
    """The result of a successful verification of an image.

    Attributes:
        image: the image reference with the verified digest.
        manifest: the manifest with that digest.
        signatures: one signature for each policy that covers the image.
        policy_digest: the digest of the policies and of the files that they refer to.
        material: all readable signatures of the image, by any signer.
    """

    image: Reference
    manifest: RawManifest
    signatures: tuple[Signature, ...]
    policy_digest: str
    material: tuple[SignatureMaterial, ...] = ()


@dataclass(frozen=True)
class _Attached:
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
    """Verify that a signature of an image satisfies each policy that covers it.

    Args:
        client: an open client.
        image: the image, by tag or digest. Use only the digest in the result, because tags can change.
        policies: the signer policies.
        namespace: the namespace in which the image is used; None for no specific namespace.
        clock: returns the current time, at which certificates must be valid if there is no verified signing time.
        patience_seconds: the time limit for all requests together, in seconds.

    Raises:
        UnverifiedError: no policy covers the image, a policy is not satisfied, or the result is unknown.
    """
    covering = _select(policies, image, namespace)
    try:
        async with asyncio.timeout(patience_seconds):
            manifest = await client.read_manifest(image)
            pinned = image.with_digest(manifest.digest)
            attached = await _fetch_signatures(client, pinned)
    except RegistryError as exc:
        failure = _convert_error(exc)
        raise UnverifiedError(f"cannot verify {image}: {failure.message}", (failure,), next_step=exc.next_step) from exc
    except TimeoutError as exc:
        failure = Failure(
            RejectionReason.REGISTRY_UNAVAILABLE,
            f"requests to {image.registry} took longer than {patience_seconds:g} seconds",
        )
        raise UnverifiedError(f"cannot verify {image}: {failure.message}", (failure,)) from exc
    now = clock()

    def satisfy_all() -> tuple[Signature, ...]:
        return tuple(_satisfy(policy, attached, policies.trust, now, pinned) for policy in covering)

    # Verification requires CPU time, during which the event loop of a service must not be blocked.
    signatures = await asyncio.to_thread(satisfy_all)
    return Verification(pinned, manifest, signatures, policies.digest, attached.material)


def judge_material(
    image: Reference,
    material: Iterable[SignatureMaterial],
    policies: SignerPolicies,
    *,
    namespace: str | None = None,
    now: datetime,
) -> tuple[Signature, ...]:
    """Verify the stored signatures of an image without sending requests to a registry.

    Args:
        image: the image reference with a digest. The name in the reference selects the policies.
        material: the material of an earlier `Verification`.
        policies: the signer policies.
        namespace: the namespace in which the image is used; None for no specific namespace.
        now: the time at which certificates must be valid if there is no verified signing time.

    Returns:
        One signature for each policy that covers the image.

    Raises:
        UnverifiedError: no policy covers the image, or these signatures do not satisfy a policy. A registry may have
            newer signatures.
    """
    covering = _select(policies, image, namespace)
    attached = _read_evidence(image, _Attached(tuple(material)))
    return tuple(_satisfy(policy, attached, policies.trust, now, image) for policy in covering)


def _select(policies: SignerPolicies, image: Reference, namespace: str | None) -> tuple[SignerPolicy, ...]:
    if covering := policies.select(image, namespace):
        return covering
    where = f" for namespace {namespace}" if namespace else ""
    failure = Failure(RejectionReason.NOT_COVERED, f"no signer policy covers {image.name}{where}")
    raise UnverifiedError(
        failure.message, (failure,), next_step="add a policy with the signers of the image, or specify the namespace"
    )


def _read_evidence(image: Reference, attached: _Attached) -> _Attached:
    """Return the attached signatures as evidence; unreadable signatures become failures."""
    digest, evidence, failures = image.require_digest(), [], [*attached.failures]
    for each in attached.material:
        try:
            if each.annotations is None:
                evidence.append(bundles.read_image_evidence(each.content, digest, each.source))
            else:
                evidence.append(simple_signing.read_image_evidence(each.content, each.annotations, digest, each.source))
        except RejectedError as exc:
            failures.append(Failure(exc.reason, exc.message, each.source))
    return _Attached(attached.material, tuple(failures), tuple(evidence))


def _satisfy(policy: SignerPolicy, attached: _Attached, trust: TrustRoot, now: datetime, image: Reference) -> Signature:
    failures = list(attached.failures)
    for evidence in attached.evidence:
        for signer in policy.signers:
            try:
                verified = judge_signature(evidence, signer, trust, now)
            except RejectedError as exc:
                failures.append(Failure(exc.reason, exc.message, evidence.source, signer.name))
                continue
            return Signature(
                policy=policy.name,
                signer=signer.name,
                format=evidence.format,
                identity=verified.identity,
                issuer=verified.issuer,
                log_index=verified.log_index,
                signed_at=verified.signed_at,
                source=evidence.source,
            )
    if not failures:
        failures = [Failure(RejectionReason.NO_SIGNATURES, "the image has no signatures")]
    first = choose_nearest(tuple(failures))
    kept = (first, *(each for each in failures if each is not first))[:MAX_FAILURES]
    next_step = {
        RejectionReason.NO_SIGNATURES: f"sign the image: cosign sign {image.name}@{image.digest}",
        RejectionReason.NOT_A_SIGNATURE: f"sign the image: cosign sign {image.name}@{image.digest}",
        RejectionReason.IDENTITY_MISMATCH: f"if that identity may sign the image, add it to the policy {policy.name}",
        RejectionReason.LOG_ENTRY_MISSING: (
            "sign with a transparency log, or set transparencyLog: notRequired for the signer"
        ),
        RejectionReason.TRUST_ROOT_UNAVAILABLE: "specify the trusted root of the Sigstore instance of the signer",
    }.get(first.reason, "")
    raise UnverifiedError(f"{image} does not satisfy policy {policy.name}: {first}", kept, next_step=next_step)


async def _fetch_signatures(client: RegistryClient, image: Reference) -> _Attached:
    """Return all readable signatures, and failures for unreadable signatures. One valid signature is sufficient."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each(client, image)) for each in (_fetch_bundles, _fetch_signature_images)]
    new, old = (task.result() for task in tasks)
    attached = _Attached((*new.material, *old.material), (*new.failures, *old.failures))
    return await asyncio.to_thread(_read_evidence, image, attached)


async def _fetch_bundles(client: RegistryClient, image: Reference) -> _Attached:
    referrers = await client.list_referrers(image)
    material: list[SignatureMaterial] = []
    failures = [_convert_error(problem, "referrers") for problem in referrers.problems]
    candidates = _order_candidates(referrers.descriptors)
    if len(candidates) > MAX_SIGNATURES:
        failures.append(
            Failure(RejectionReason.UNREADABLE, f"only {MAX_SIGNATURES} of {len(candidates)} bundles are verified")
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
    return _Attached(tuple(material), tuple(failures))


def _order_candidates(referrers: tuple[Descriptor, ...]) -> list[Descriptor]:
    """Return the referrers that may be bundles: likely signatures first, then attestations, then untyped entries.

    An entry with a different type is not a bundle. Some lists contain entries without a type, or with the type of the
    empty configuration, which cosign 3 writes to the fallback tag. For these entries, only the type in the manifest is
    reliable.
    """
    candidates = [each for each in referrers if bundles.may_be_bundle(each)]
    return sorted(candidates, key=_rank)


def _rank(referrer: Descriptor) -> int:
    """Return the sort key of an entry. The annotation is only a hint; only the type in the bundle is reliable."""
    if not referrer.artifact_type.startswith(bundles.BUNDLE_TYPE_PREFIX):
        return 2
    # Otherwise, many attestations could exhaust the limit before the signature is read.
    stated = referrer.annotations.get(bundles.PREDICATE_ANNOTATION, bundles.SIGN_PREDICATE)
    return 0 if stated == bundles.SIGN_PREDICATE else 1


async def _read_bundle(client: RegistryClient, image: Reference, referrer: Descriptor) -> bytes | None:
    """Return the bundle of a referrer; None if the referrer has a different type."""
    document = (await client.read_manifest(image.with_digest(referrer.digest))).decode()
    if not isinstance(document, Manifest) or not document.artifact.startswith(bundles.BUNDLE_TYPE_PREFIX):
        return None
    if document.subject is None or document.subject.digest != image.digest:
        raise RejectedError(
            RejectionReason.SUBJECT_MISMATCH, f"the manifest of the bundle refers to an image other than {image.digest}"
        )
    if len(document.layers) != 1:
        raise RejectedError(
            RejectionReason.UNREADABLE, f"the manifest of the bundle has {len(document.layers)} layers instead of one"
        )
    return await client.read_blob(image, document.layers[0], limit=MAX_SIGNATURE_BYTES)


async def _fetch_signature_images(client: RegistryClient, image: Reference) -> _Attached:
    """Return the layers of cosign 2 signature images, which are found by tag in the registry and its mirrors."""
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
            Failure(RejectionReason.UNREADABLE, f"only {MAX_SIGNATURES} of {len(layers)} signatures are verified", tag)
        )
    for number, layer in enumerate(list(layers.values())[:MAX_SIGNATURES], 1):
        source = f"{tag} layer {number}"
        try:
            payload = await client.read_blob(image, layer, limit=MAX_SIGNATURE_BYTES)
            material.append(SignatureMaterial(source, payload, dict(layer.annotations)))
        except RegistryError as exc:
            failures.append(_convert_error(exc, source))
    return _Attached(tuple(material), tuple(failures))


def _list_simple_layers(raw: RawManifest) -> list[Descriptor]:
    document = raw.decode()
    if not isinstance(document, Manifest):
        raise CacheError("the tag of the signatures points to an index, not to an image")
    return [each for each in document.layers if each.media_type == simple_signing.PAYLOAD_TYPE]


def _identify(layer: Descriptor) -> tuple[str, str]:
    # Several signatures of one image have the same payload, and differ only in their annotations.
    return layer.digest, repr(sorted(layer.annotations.items()))


def _convert_error(exc: RegistryError | CacheError, source: str = "") -> Failure:
    mirrors_answered = isinstance(exc, RegistryError) and exc.beside_mirrors
    unavailable = isinstance(exc, RegistryError) and exc.retryable
    reason = RejectionReason.REGISTRY_UNAVAILABLE if unavailable else RejectionReason.UNREADABLE
    return Failure(reason, exc.message, source, beside_mirrors=mirrors_answered)
