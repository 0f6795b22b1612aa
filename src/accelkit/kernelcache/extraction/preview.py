"""Previews an extraction: everything is checked that is checked before a layer is fetched, and nothing written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts
from accelkit.kernelcache.extraction import CompletionRecord, ExtractionRequest, read_completed
from accelkit.kernelcache.extraction.checks import check_image, describe_signers, require_fit, tighten_limits
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.extraction.kept_signatures import find_believed
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.signatures import verify_image


@dataclass(frozen=True)
class Preview:
    """What an extraction would leave.

    Attributes:
        place: where the cache would lie.
        image: reference with the digest.
        format: of the cache.
        signatures: who signed, as sentences.
        present: the record that the cache has which lies there already; None where it would be extracted.
        verdicts: on the node's cards, as extraction gives them.
    """

    place: Place
    image: str
    format: str
    signatures: tuple[str, ...]
    present: CompletionRecord | None = None
    verdicts: CompatibilityVerdicts | None = None


async def preview_extraction(client: RegistryClient, request: ExtractionRequest) -> Preview:
    """Verify and judge an image as an extraction would, and write nothing.

    Whether the layers are sound, and fit onto the disk, only an extraction tells.

    Raises:
        UnverifiedError: its signatures do not satisfy the policies.
        CacheError: it is no cache image, fits no card of the node, or is too large.
        RegistryError: the registry failed.
    """
    if request.image.digest:
        place = Place.of(request.base, request.image.digest, request.mount_path)
        present = await asyncio.to_thread(read_completed, place)
        if present is not None and (judged := await find_believed(place.folder, present, request)) is not None:
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
