"""Checks that precede the download of an image's layers, in addition to its signatures: format, cards and size."""

from __future__ import annotations

from collections.abc import Iterable

from accelkit.errors import CacheError
from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts, Fit, NodeHardware, judge
from accelkit.kernelcache.extraction.request import ExtractionRequest
from accelkit.kernelcache.extraction.rules import Limits
from accelkit.kernelcache.formats import FORMATS, ImageLabels
from accelkit.kernelcache.formats.cache_image import CacheImage, read_cache_image
from accelkit.kernelcache.registry import RawManifest, RegistryClient
from accelkit.kernelcache.signatures import Signature

# The margin by which the files of an image may exceed the size in its label, to allow for the manifest and rounding.
_SLACK_BYTES = 16 << 20
_SLACK_SHARE = 100
# Overhead of one file in an archive: its header, a long name, and padding.
_HEADER_BYTES = 2048


async def check_image(
    client: RegistryClient, request: ExtractionRequest, raw: RawManifest
) -> tuple[CacheImage, CompatibilityVerdicts | None]:
    """Check an image's format and its compatibility with the node's cards; return the image and the verdicts.

    Raises:
        CacheError: the image is not a cache image, or fits no card of the node.
        RegistryError: the registry failed.
    """
    image = await read_cache_image(client, request.image.with_digest(raw.digest), raw)
    # The format, which comes from the image labels, becomes part of paths.
    if image.labels.format not in FORMATS:
        raise CacheError(
            f"{image.reference} has a cache of the unsupported format {image.labels.format!a}",
            next_step="use a release of accelkit that supports this format",
        )
    return image, require_fit(image.labels, request.node)


def require_fit(labels: ImageLabels, node: NodeHardware | None) -> CompatibilityVerdicts | None:
    """Return the verdicts for the cards of a node; None if no node is given.

    Raises:
        CacheError: the cache fits none of the cards.
    """
    if node is None:
        return None
    verdicts = judge(labels, node)
    if verdicts.fit is Fit.NONE:
        reasons = [*verdicts.reasons, *(reason for card in verdicts.cards for reason in card.reasons if reason.hard)]
        causes = "; ".join(dict.fromkeys(f"{reason.code}: {reason.message}" for reason in reasons))
        raise CacheError(
            f"the cache fits none of the cards ({causes})", next_step="use an image that was built for these cards"
        )
    return verdicts


def tighten_limits(image: CacheImage, limits: Limits) -> Limits:
    """Return the limits on an image's files, reduced to the size in the image's label plus a margin.

    Raises:
        CacheError: the size in the image's label exceeds the limits.
    """
    packed = sum(layer.size for layer in image.manifest.layers)
    # Uncompressed archives are larger than their files, because they contain headers.
    largest = max(packed - limits.files * _HEADER_BYTES, image.labels.size_bytes or 0)
    if largest > limits.total_bytes:
        raise CacheError(
            f"the image states a size of {largest} bytes; at most {limits.total_bytes} are allowed",
            next_step="check who built the image, and raise the limit if the size is correct",
        )
    if image.labels.size_bytes is None:
        return limits
    claimed = image.labels.size_bytes + image.labels.size_bytes // _SLACK_SHARE + _SLACK_BYTES
    return Limits(min(claimed, limits.total_bytes), min(claimed, limits.file_bytes), limits.files)


def describe_signers(signatures: Iterable[Signature]) -> tuple[str, ...]:
    """Return a user-readable description of each signer."""
    return tuple(f"{each.identity} ({each.format}, policy {each.policy})" for each in signatures)
