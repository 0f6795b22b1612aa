"""Builds the image of a cache folder and pushes it, with neither docker nor buildah, the same bytes every time."""

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
    """How an image is built.

    Attributes:
        compression: MCV reads gzip only.
        media: whose media types are used, OCI's or Docker's.
        architecture: CPU of the image, and of the native launchers in it; None for this host's.
        gpu_product: the card it was compiled on; Inductor's part hits on cards of that name only.
        built_for: the card's backend and architecture, where the cache's files do not tell.
        allow_secrets: whether a cache is pushed whose files hold variables that look like secrets.
    """

    compression: Compression = "gzip"
    media: MediaFamily = "oci"
    architecture: str | None = None
    gpu_product: str | None = None
    built_for: Target | None = None
    allow_secrets: bool = False


@dataclass(frozen=True)
class BuiltImage:
    """An image that was built, and perhaps pushed.

    Attributes:
        digest: of the manifest.
        manifest: its bytes.
        media_type: of the manifest.
        cache: what is in it.
        labels: of its configuration.
        layer: the one layer.
        pushed: whether a registry has it now.
        uploaded_bytes: what was sent; less than its size where the registry had some of it.
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
    """Build the image of a cache folder and push it.

    Args:
        folder: as the framework left it.
        reference: where the image goes; its tag is moved.
        options: how.
        client: an open one; None to build only, which tells the digest.
        present: the digest that the tag leads to already, or None; an image with it is not pushed again.

    Raises:
        CacheError: the folder is no cache, holds secrets, changes meanwhile, or could not be extracted again; or the
            disk is full.
        RegistryError: the registry refuses it.
    """
    if reference.digest:
        raise CacheError(f"{reference} has a digest, and what is built has its own", next_step="give a tag")
    architecture = options.architecture or read_host_architecture()
    cache = await asyncio.to_thread(read_cache, folder, cpu_architecture=architecture, built_for=options.built_for)
    _check_names(cache, folder)
    if client is not None and cache.secret_names and not options.allow_secrets:
        raise CacheError(
            f"the files in {folder} hold what looks like secrets, for whoever pulls the image: "
            f"{', '.join(cache.secret_names)}",
            next_step="fill the cache without these variables, or allow it if they are none",
        )
    # A layer may be larger than memory; it has to be written before its digest is known.
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
    """Nobody is helped by an image that no extraction takes."""
    for path in cache.files:
        try:
            normalize_path(f"io.{cache.format}.cache/{path}")
        except CacheError as exc:
            raise CacheError(
                f"an image of {folder} could not be extracted: {exc.message}", next_step="rename or remove that file"
            ) from exc


def _write_layer(cache: Cache, folder: Path, file: BinaryIO, options: BuildOptions) -> LayerInfo:
    try:
        return write_layer(cache, folder, file, compression=options.compression, media=options.media)
    except OSError as exc:
        raise CacheError(
            f"the layer cannot be written to {tempfile.gettempdir()}: {exc.strerror or exc}",
            next_step="free some space there, or set TMPDIR to a folder on a larger disk",
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
