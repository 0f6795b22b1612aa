"""Cache images in a registry: manifest, configuration and labels, read without fetching a layer."""

from __future__ import annotations

from dataclasses import dataclass

from accelkit.errors import CacheError
from accelkit.kernelcache.formats.label_reading import ImageLabels, read_labels
from accelkit.kernelcache.oci.documents import (
    LAYER_COMPRESSION,
    MAX_CONFIG_BYTES,
    ImageConfig,
    Index,
    Manifest,
    decode_config,
)
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RawManifest, RegistryClient


@dataclass(frozen=True)
class CacheImage:
    """A kernel cache image.

    Attributes:
        reference: the reference, pinned to the digest of `manifest`. For an index, it refers to the image for this CPU.
        manifest: the manifest, with at least one layer.
        config: the configuration with the unparsed labels.
        labels: the parsed labels.
    """

    reference: Reference
    manifest: Manifest
    config: ImageConfig
    labels: ImageLabels


async def read_cache_image(client: RegistryClient, reference: Reference, raw: RawManifest) -> CacheImage:
    """Return an image with its configuration and labels.

    Args:
        client: an open client.
        reference: the reference, pinned to the digest of `raw`.
        raw: the manifest or index of the image.

    Raises:
        CacheError: the image is not a cache image, or the index has no image for this CPU.
        RegistryError: the registry failed.
    """
    document = raw.decode()
    if isinstance(document, Index):
        reference = reference.with_digest(_choose_member(document, reference))
        document = (await client.read_manifest(reference)).decode()
        if isinstance(document, Index):
            raise CacheError(f"{reference} is an index of indexes", next_step="specify an image, or an index of images")
    unknown = [layer.media_type for layer in document.layers if layer.media_type not in LAYER_COMPRESSION]
    if unknown or not document.layers:
        raise CacheError(
            f"{reference} is not a cache image: its layers are {', '.join(unknown)[:200] or 'missing'}",
            next_step="build it with 'accelkit cache build' or MCV",
        )
    config = decode_config(await client.read_blob(reference, document.config, limit=MAX_CONFIG_BYTES))
    return CacheImage(reference, document, config, read_labels(config.labels))


def _choose_member(index: Index, reference: Reference) -> str:
    """Return the digest of an index's only image, or of the image for this CPU if the index contains several images."""
    members = [each for each in index.manifests if not (each.platform and each.platform.os == "unknown")]
    if len(members) == 1:
        return members[0].digest
    own = read_host_architecture()
    for each in members:
        if each.platform is not None and (each.platform.os, each.platform.architecture) == ("linux", own):
            return each.digest
    raise CacheError(f"{reference} has no image for linux/{own}", next_step="build an image for this CPU")
