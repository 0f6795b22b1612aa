"""Preview of an extraction: the checks that precede the layer download. Nothing is written to the disk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts
from accelkit.kernelcache.extraction import CompletionRecord, ExtractionRequest, read_completed
from accelkit.kernelcache.extraction.checks import check_image, describe_signers, require_fit, tighten_limits
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.extraction.kept_signatures import find_accepted
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.signatures import verify_image


@dataclass(frozen=True)
class Preview:
    """The result that an extraction would have.

    Attributes:
        place: the place of the cache.
        image: the reference with the digest.
        format: the format of the cache.
        signatures: a user-readable description of each signer.
        present: the record of the cache if it already exists; None if it would be extracted.
        verdicts: the verdicts for the node's cards, as in an extraction.
    """

    place: Place
    image: str
    format: str
    signatures: tuple[str, ...]
    present: CompletionRecord | None = None
    verdicts: CompatibilityVerdicts | None = None


async def preview_extraction(client: RegistryClient, request: ExtractionRequest) -> Preview:
    """Check an image as an extraction would, without writing to the disk.

    A preview does not detect damaged layers or a full disk.

    Raises:
        UnverifiedError: the signatures of the image do not satisfy the policies.
        CacheError: the image is not a cache image, fits no card of the node, or is too large.
        RegistryError: the registry failed.
    """
    if request.image.digest:
        place = Place.of(request.base, request.image.digest, request.mount_path)
        present = await asyncio.to_thread(read_completed, place)
        if present is not None and (judged := await find_accepted(place.folder, present, request)) is not None:
            return _preview_present(place, judged, request)
    verification = None
    if request.policies is not None:
        verification = await verify_image(
            client, request.image, request.policies, namespace=request.namespace, clock=request.clock
        )
    raw = verification.manifest if verification is not None else await client.read_manifest(request.image)
    place = Place.of(request.base, raw.digest, request.mount_path)
    present = await asyncio.to_thread(read_completed, place)
    if present is not None:
        if verification is not None:
            signatures = describe_signers(verification.signatures)
            present = msgspec.structs.replace(present, image=str(verification.image), signatures=signatures)
        return _preview_present(place, present, request)
    image, verdicts = await check_image(client, request, raw)
    tighten_limits(image, request.limits)
    pinned = str(request.image.with_digest(raw.digest))
    signers = describe_signers(verification.signatures) if verification is not None else ()
    return Preview(place, pinned, image.labels.format, signers, verdicts=verdicts)


def _preview_present(place: Place, present: CompletionRecord, request: ExtractionRequest) -> Preview:
    verdicts = require_fit(present.labels, request.node)
    return Preview(place, present.image, present.format, present.signatures, present, verdicts)
