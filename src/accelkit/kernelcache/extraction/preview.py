"""What an extraction would do, with everything checked that is checked before a layer is fetched."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from accelkit.kernelcache.compatibility.verdicts import Verdicts
from accelkit.kernelcache.extraction import CompletionRecord, Order, completed
from accelkit.kernelcache.extraction.checks import bounded, fitting, judged, sentences
from accelkit.kernelcache.extraction.folder import Place
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
    verdicts: Verdicts | None = None


async def preview_extraction(client: RegistryClient, order: Order) -> Preview:
    """Verify and judge an image as an extraction would, and write nothing.

    Whether the layers are sound, and fit onto the disk, only an extraction tells.

    Raises:
        UnverifiedError: its signatures do not satisfy the policies.
        CacheError: it is no cache image, fits no card of the node, or is too large.
        RegistryError: the registry failed.
    """
    if order.image.digest:
        place = Place.of(order.base, order.image.digest, order.mount_path)
        present = await asyncio.to_thread(completed, place)
        if present is not None and order.policy_digest in {"", present.policy_digest}:
            return _of_present(place, present, order)
    verification = None
    if order.policies is not None:
        verification = await verify_image(
            client, order.image, order.policies, namespace=order.namespace, clock=order.clock
        )
    raw = verification.manifest if verification is not None else await client.manifest(order.image)
    place = Place.of(order.base, raw.digest, order.mount_path)
    present = await asyncio.to_thread(completed, place)
    if present is not None:
        if verification is not None:
            signatures = sentences(verification)
            present = msgspec.structs.replace(present, image=str(verification.image), signatures=signatures)
        return _of_present(place, present, order)
    image, verdicts = await judged(client, order, raw)
    bounded(image, order.limits)
    pinned = str(order.image.at(raw.digest))
    return Preview(place, pinned, image.labels.format, sentences(verification), verdicts=verdicts)


def _of_present(place: Place, present: CompletionRecord, order: Order) -> Preview:
    verdicts = fitting(present.labels, order.node)
    return Preview(place, present.image, present.format, present.signatures, present, verdicts)
