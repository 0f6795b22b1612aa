"""Views of results, which commands print as JSON or YAML, and Ansible modules return."""

from __future__ import annotations

import msgspec

from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts
from accelkit.kernelcache.extraction import ExtractionResult
from accelkit.kernelcache.extraction.preview import Preview
from accelkit.kernelcache.formats import Target
from accelkit.kernelcache.formats.cache_image import CacheImage
from accelkit.kernelcache.publishing.build import BuiltImage
from accelkit.kernelcache.signatures import Failure, Signature, UnverifiedError, Verification


class SignatureView(msgspec.Struct, frozen=True):
    """A signature that satisfies a policy. `log_index` and `signed_at` (RFC 3339) are null if they are not verified."""

    policy: str
    signer: str
    format: str
    identity: str
    issuer: str
    log_index: int | None
    signed_at: str | None


class FailureView(msgspec.Struct, frozen=True):
    """The reason why a signature is rejected."""

    reason: str
    message: str
    source: str
    signer: str


class VerificationView(msgspec.Struct, frozen=True):
    """The verdict on an image. If `retryable` is true, there is no verdict yet, and a later attempt may succeed."""

    image: str
    digest: str | None
    verified: bool
    signatures: tuple[SignatureView, ...] = ()
    reason: str | None = None
    message: str = ""
    retryable: bool = False
    failures: tuple[FailureView, ...] = ()
    compatibility: CompatibilityView | None = None


class FactorView(msgspec.Struct, frozen=True):
    """A factor that determines whether the workload finds kernels; `agrees` is null unless both values are known."""

    name: str
    agrees: bool | None
    message: str


class CardCompatibilityView(msgspec.Struct, frozen=True):
    """The verdict for one card. `hit` is derived from `factors`."""

    id: str
    verdict: str
    hit: str
    reasons: tuple[str, ...]
    factors: tuple[FactorView, ...]


class CompatibilityView(msgspec.Struct, frozen=True):
    """The verdict for a node. `fit` is all, some, none or unknown."""

    fit: str
    cards: tuple[CardCompatibilityView, ...]
    reasons: tuple[str, ...]


class ImageView(msgspec.Struct, frozen=True):
    """Properties of a cache according to its image. Properties that the image does not specify are null."""

    image: str
    digest: str
    format: str
    compressed_bytes: int
    cache_bytes: int | None
    entries: int | None
    targets: tuple[Target, ...]
    cache_formats: tuple[str, ...]
    hashes: tuple[str, ...]
    triton_versions: tuple[str, ...]
    cuda_versions: tuple[str, ...]
    cpu_architecture: str | None
    gpu_product: str | None
    labels: dict[str, str]
    compatibility: CompatibilityView | None = None


class ExtractionView(msgspec.Struct, frozen=True):
    """An extracted cache. `changed` is true if this call extracted it. `extracted_at` is a time in RFC 3339 format."""

    image: str
    digest: str
    path: str
    mount_path: str
    format: str
    files: int
    bytes: int
    signatures: tuple[str, ...]
    changed: bool
    extracted_at: str
    compatibility: CompatibilityView | None = None


class PreviewView(msgspec.Struct, frozen=True):
    """The path and properties of the cache that an extraction would create."""

    image: str
    digest: str
    path: str
    mount_path: str
    format: str
    signatures: tuple[str, ...]
    compatibility: CompatibilityView | None = None


class BuildView(msgspec.Struct, frozen=True):
    """An image that was built. `secrets` lists variables in the files of the cache that look like secrets."""

    image: str
    digest: str
    format: str
    entries: int
    files: int
    cache_bytes: int
    compressed_bytes: int
    uploaded_bytes: int
    pushed: bool
    signed: bool
    secrets: tuple[str, ...]
    labels: dict[str, str]


def describe_verification(
    image: str, verification: Verification, verdicts: CompatibilityVerdicts | None = None
) -> VerificationView:
    """Return the view of a successful verification, which includes the verdict for each card."""
    return VerificationView(
        image,
        verification.image.digest,
        verified=True,
        signatures=tuple(map(_describe_signature, verification.signatures)),
        compatibility=describe_compatibility(verdicts) if verdicts is not None else None,
    )


def describe_refusal(image: str, refused: UnverifiedError) -> VerificationView:
    """Return the view of a verification that failed or reached no verdict."""
    failures = tuple(map(_describe_failure, refused.failures))
    reason = refused.reason
    return VerificationView(
        *(image, None),
        verified=False,
        reason=reason.value,
        message=str(refused),
        retryable=reason.retryable,
        failures=failures,
    )


def describe_compatibility(verdicts: CompatibilityVerdicts) -> CompatibilityView:
    """Return the compatibility verdicts in the format that commands print and modules return."""
    cards = tuple(
        CardCompatibilityView(
            card.id,
            card.verdict.value,
            card.hit.value,
            tuple(f"{reason.code}: {reason.message}" for reason in card.reasons),
            tuple(FactorView(factor.name, factor.agrees, factor.message) for factor in card.factors),
        )
        for card in verdicts.cards
    )
    reasons = tuple(f"{reason.code}: {reason.message}" for reason in verdicts.reasons)
    return CompatibilityView(verdicts.fit.value, cards, reasons)


def describe_image(image: CacheImage, digest: str, verdicts: CompatibilityVerdicts | None) -> ImageView:
    """Return the view of an image. `digest` is the digest of its reference, which may refer to an index."""
    labels = image.labels
    return ImageView(
        image=str(image.reference.with_digest(digest)),
        digest=digest,
        format=labels.format,
        compressed_bytes=sum(layer.size for layer in image.manifest.layers),
        cache_bytes=labels.size_bytes,
        entries=labels.entry_count,
        targets=labels.targets,
        cache_formats=labels.cache_formats,
        hashes=labels.hashes,
        triton_versions=labels.triton_versions,
        cuda_versions=labels.cuda_versions,
        cpu_architecture=labels.cpu_architecture,
        gpu_product=labels.gpu_product,
        labels=image.config.labels,
        compatibility=describe_compatibility(verdicts) if verdicts is not None else None,
    )


def describe_extraction(extracted: ExtractionResult) -> ExtractionView:
    """Return the view of an extracted cache."""
    record, place = extracted.record, extracted.place
    return ExtractionView(
        image=record.image,
        digest=place.digest,
        path=str(place.cache),
        mount_path=record.mount_path,
        format=record.format,
        files=record.files,
        bytes=record.size_bytes,
        signatures=record.signatures,
        changed=extracted.fresh,
        extracted_at=record.extracted_at,
        compatibility=describe_compatibility(extracted.verdicts) if extracted.verdicts is not None else None,
    )


def describe_preview(preview: Preview) -> ExtractionView | PreviewView:
    """Return the view of an existing cache with its current signers, or of the cache that would be extracted."""
    place, verdicts = preview.place, preview.verdicts
    if preview.present is not None:
        return describe_extraction(ExtractionResult(place, preview.present, fresh=False, verdicts=verdicts))
    return PreviewView(
        image=preview.image,
        digest=place.digest,
        path=str(place.cache),
        mount_path=place.mount_path,
        format=preview.format,
        signatures=preview.signatures,
        compatibility=describe_compatibility(verdicts) if verdicts is not None else None,
    )


def describe_build(image: str, built: BuiltImage, *, signed: bool = False) -> BuildView:
    """Return the view of a built image. `signed` specifies whether the image was signed."""
    return BuildView(
        image=image,
        digest=built.digest,
        format=built.cache.format,
        entries=len(built.cache.entries),
        files=len(built.cache.files),
        cache_bytes=built.cache.size_bytes,
        compressed_bytes=built.layer.size_bytes,
        uploaded_bytes=built.uploaded_bytes,
        pushed=built.pushed,
        signed=signed,
        secrets=built.cache.secret_names,
        labels=built.labels,
    )


def _describe_signature(signature: Signature) -> SignatureView:
    at = signature.signed_at
    return SignatureView(
        policy=signature.policy,
        signer=signature.signer,
        format=signature.format,
        identity=signature.identity,
        issuer=signature.issuer or "",
        log_index=signature.log_index,
        signed_at=at.isoformat(timespec="seconds") if at is not None else None,
    )


def _describe_failure(failure: Failure) -> FailureView:
    return FailureView(failure.reason.value, failure.message, failure.source, failure.signer)
