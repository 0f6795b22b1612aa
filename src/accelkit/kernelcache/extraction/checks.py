"""Checks of an image before its layers are fetched, beside its signatures: format, cards, size."""

from __future__ import annotations

from collections.abc import Iterable

from accelkit.errors import CacheError
from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts, Fit, NodeFacts, judge
from accelkit.kernelcache.extraction.request import ExtractionRequest
from accelkit.kernelcache.extraction.rules import Limits
from accelkit.kernelcache.formats import FORMATS, ImageLabels
from accelkit.kernelcache.formats.cache_image import CacheImage, read_cache_image
from accelkit.kernelcache.registry import RawManifest, RegistryClient
from accelkit.kernelcache.signatures import Signature

# What an image's files may exceed the size that its label gives: the manifest beside the cache, and rounding.
_SLACK_BYTES = 16 << 20
_SLACK_SHARE = 100
# Of one file in an archive: its header, its name where that is long, and padding.
_HEADER_BYTES = 2048


async def check_image(
    client: RegistryClient, request: ExtractionRequest, raw: RawManifest
) -> tuple[CacheImage, CompatibilityVerdicts | None]:
    """Read what an image says of its cache, and judge whether the node's cards can use it.

    Raises:
        CacheError: it is no cache image, or fits no card of the node.
        RegistryError: the registry failed.
    """
    image = await read_cache_image(client, request.image.with_digest(raw.digest), raw)
    # It is a word of the image's labels, and becomes part of paths.
    if image.labels.format not in FORMATS:
        raise CacheError(
            f"{image.reference} says that its cache is of the format {image.labels.format!a}, which is not known",
            next_step="use a newer accelkit, if there is one that knows it",
        )
    return image, require_fit(image.labels, request.node)


def require_fit(labels: ImageLabels, node: NodeFacts | None) -> CompatibilityVerdicts | None:
    """Judge a cache for a node's cards; None where no node is given.

    Raises:
        CacheError: it fits none of them.
    """
    if node is None:
        return None
    verdicts = judge(labels, node)
    if verdicts.fit is Fit.NONE:
        reasons = [*verdicts.reasons, *(reason for card in verdicts.cards for reason in card.reasons if reason.hard)]
        told = "; ".join(dict.fromkeys(f"{reason.code}: {reason.message}" for reason in reasons))
        raise CacheError(
            f"the cache fits none of the cards ({told})", next_step="take an image that was built for these cards"
        )
    return verdicts


def tighten_limits(image: CacheImage, limits: Limits) -> Limits:
    """Return the limits on an image's files: an image may not be larger than it says, either.

    Raises:
        CacheError: what it says is beyond the limits already.
    """
    packed = sum(layer.size for layer in image.manifest.layers)
    # Archives that are not compressed are larger than their files by their headers.
    largest = max(packed - limits.files * _HEADER_BYTES, image.labels.size_bytes or 0)
    if largest > limits.total_bytes:
        raise CacheError(
            f"the image says that it has {largest} bytes; {limits.total_bytes} are allowed",
            next_step="check who built it, and raise the limit if that is right",
        )
    if image.labels.size_bytes is None:
        return limits
    claimed = image.labels.size_bytes + image.labels.size_bytes // _SLACK_SHARE + _SLACK_BYTES
    return Limits(min(claimed, limits.total_bytes), min(claimed, limits.file_bytes), limits.files)


def describe_signers(signatures: Iterable[Signature]) -> tuple[str, ...]:
    """Return who signed, for people to read."""
    return tuple(f"{each.identity} ({each.format}, policy {each.policy})" for each in signatures)
