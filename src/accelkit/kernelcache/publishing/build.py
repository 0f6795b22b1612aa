"""Reproducible builds of cache images from cache folders, and pushes of these images, without `docker` or `buildah`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.rules import normalize_path
from accelkit.kernelcache.formats import Cache, Target, read_cache, write_labels
from accelkit.kernelcache.oci.documents import (
    DOCKER_CONFIG,
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_MANIFEST,
    Descriptor,
    Manifest,
)
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kernelcache.oci.reference import Reference, compute_digest
from accelkit.kernelcache.publishing.layer_writer import (
    Compression,
    LayerInfo,
    MediaFamily,
    write_image_config,
    write_layer,
)
from accelkit.kernelcache.registry import RegistryClient

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class BuildOptions:
    """The options of a build.

    Attributes:
        compression: the compression format of the layer; MCV supports only gzip.
        media: the family of media types: OCI or Docker.
        architecture: the CPU architecture of the image and of its native launchers; None for this host's architecture.
        gpu_product: the name of the card on which the cache was compiled. Inductor's kernels are found only on cards
            with this name.
        built_for: the backend and architecture of the card, if the files of the cache do not contain them.
        allow_secrets: whether to push a cache even if its files contain variables that look like secrets.
    """

    compression: Compression = "gzip"
    media: MediaFamily = "oci"
    architecture: str | None = None
    gpu_product: str | None = None
    built_for: Target | None = None
    allow_secrets: bool = False


@dataclass(frozen=True)
class BuiltImage:
    """A built image and the result of the push.

    Attributes:
        digest: the digest of the manifest.
        manifest: the bytes of the manifest.
        media_type: the media type of the manifest.
        cache: the cache in the image.
        labels: the labels in the image configuration.
        layer: the only layer of the image.
        pushed: whether this build pushed the image.
        uploaded_bytes: the number of bytes sent. It is less than the image size if the registry already had some of its
            blobs.
    """

    digest: str
    manifest: bytes
    media_type: str
    cache: Cache
    labels: dict[str, str]
    layer: LayerInfo
    pushed: bool = False
    uploaded_bytes: int = 0


async def build_image(
    folder: Path,
    reference: Reference,
    options: BuildOptions,
    client: RegistryClient | None = None,
    *,
    present: str | None = None,
) -> BuiltImage:
    """Build an image from a cache folder and push it.

    Args:
        folder: the unchanged cache folder of the framework.
        reference: the target reference. An existing tag is moved to the new image.
        options: the options of the build.
        client: an open client; None to build the image without a push, for example to compute its digest.
        present: the digest to which the tag currently points; None if it is unknown. An image with this digest is not
            pushed again.

    Raises:
        CacheError: the folder is not a cache, contains secrets, changes during the build, or contains file names that
            extraction does not accept; or the disk is full.
        RegistryError: the registry rejects the image.
    """
    if reference.digest:
        raise CacheError(
            f"cannot build {reference}: the digest of an image is known only after the build",
            next_step="use a tag instead",
        )
    architecture = options.architecture or read_host_architecture()
    cache = await asyncio.to_thread(read_cache, folder, cpu_architecture=architecture, built_for=options.built_for)
    _check_names(cache, folder)
    if client is not None and cache.secret_names and not options.allow_secrets:
        raise CacheError(
            f"cannot push an image of {folder}: its files contain variables that look like secrets, which all users of "
            f"the image could read: {', '.join(cache.secret_names)}",
            next_step="fill the cache without these variables, or allow them if they are not secrets",
        )
    # A layer may be larger than memory, so it is written to a file before its digest is known.
    with tempfile.TemporaryFile(prefix="accelkit-layer-") as file:
        layer = await asyncio.to_thread(_write_layer, cache, folder, file, options)
        title = reference.repository.rpartition("/")[2]
        named = write_labels(cache, title=title, gpu_product=options.gpu_product)
        config = write_image_config(layer, named, architecture=architecture)
        manifest_type, config_type = (
            (DOCKER_MANIFEST, DOCKER_CONFIG) if options.media == "docker" else (OCI_MANIFEST, OCI_CONFIG)
        )
        config_blob = Descriptor(config_type, compute_digest(config), len(config))
        layer_blob = Descriptor(layer.media_type, layer.digest, layer.size_bytes)
        manifest = msgspec.json.encode(Manifest(2, config_blob, (layer_blob,), media_type=manifest_type))
        built = BuiltImage(compute_digest(manifest), manifest, manifest_type, cache, named, layer)
        if client is None or built.digest == present:
            return built
        uploaded = 0
        for blob, content in ((layer_blob, _read_file(file)), (config_blob, _read_bytes(config))):
            if await client.uploads.push_blob(reference, blob, content):
                uploaded += blob.size
        await client.uploads.push_manifest(reference, manifest, manifest_type)
    return replace(built, pushed=True, uploaded_bytes=uploaded)


def _check_names(cache: Cache, folder: Path) -> None:
    """Check that extraction accepts the names of all files."""
    for path in cache.files:
        try:
            normalize_path(f"io.{cache.format}.cache/{path}")
        except CacheError as exc:
            raise CacheError(
                f"cannot build an image of {folder}: {exc.message}", next_step="rename or remove that file"
            ) from exc


def _write_layer(cache: Cache, folder: Path, file: BinaryIO, options: BuildOptions) -> LayerInfo:
    try:
        return write_layer(cache, folder, file, compression=options.compression, media=options.media)
    except OSError as exc:
        raise CacheError(
            f"cannot write the layer to {tempfile.gettempdir()}: {exc.strerror or exc}",
            next_step="free disk space there, or set TMPDIR to a folder on a larger disk",
        ) from exc


def _read_file(file: BinaryIO) -> Callable[[], AsyncIterator[bytes]]:
    async def content() -> AsyncIterator[bytes]:
        file.seek(0)
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk

    return content


def _read_bytes(data: bytes) -> Callable[[], AsyncIterator[bytes]]:
    async def content() -> AsyncIterator[bytes]:
        yield data

    return content
