"""Manifests, indexes and image configurations, as defined by the OCI image specification and Docker's schema 2."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import CacheError
from accelkit.kernelcache.oci.reference import is_digest

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_EMPTY = "application/vnd.oci.empty.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_INDEX = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
MANIFEST_TYPES = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})
INDEX_TYPES = frozenset({OCI_INDEX, DOCKER_INDEX})

# The compression format of each supported layer media type.
LAYER_COMPRESSION = {
    "application/vnd.oci.image.layer.v1.tar+gzip": "gzip",
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd": "zstd",
    "application/vnd.docker.image.rootfs.diff.tar.zstd": "zstd",
    "application/vnd.oci.image.layer.v1.tar": "none",
    "application/vnd.docker.image.rootfs.diff.tar": "none",
    # Media types that early builders of cache images used.
    "application/cache.triton.content.layer.v1+triton": "gzip",
    "application/cache.vllm.content.layer.v1+vllm": "gzip",
}

# Registries accept manifests of at most 4 MiB.
MAX_MANIFEST_BYTES = 4 << 20
MAX_CONFIG_BYTES = 4 << 20
MAX_LAYERS = 128
_LISTS = frozenset({"manifests", "layers"})
_MAX_SIZE_BYTES = (1 << 63) - 1


class Platform(msgspec.Struct, frozen=True):
    """The platform of an image in an index."""

    architecture: str = ""
    os: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A reference to a blob or to another manifest. `size` is in bytes."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""
    annotations: dict[str, str] = {}
    platform: Platform | None = None


class Manifest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The manifest of one image or artifact."""

    schema_version: int
    config: Descriptor
    layers: tuple[Descriptor, ...]
    media_type: str = ""
    artifact_type: str = ""
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}

    @property
    def artifact(self) -> str:
        """The artifact type or, if it is not set, the media type of the configuration."""
        return self.artifact_type or self.config.media_type


class Index(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An index, which lists several manifests under a single name."""

    schema_version: int
    manifests: tuple[Descriptor, ...]
    media_type: str = ""
    artifact_type: str = ""
    subject: Descriptor | None = None
    annotations: dict[str, str] = {}


prepare(Manifest, Index)


class _Process(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = msgspec.field(name="Labels", default=None)


class ImageConfig(msgspec.Struct, frozen=True):
    """The fields of an image configuration that accelkit uses."""

    architecture: str = ""
    os: str = ""
    config: _Process | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the image; empty if it has none."""
        return (self.config and self.config.labels) or {}


_image_config = msgspec.json.Decoder(ImageConfig)


def decode_manifest(content: bytes, media_type: str = "") -> Manifest | Index:
    """Decode a manifest or an index.

    Args:
        content: the bytes from the registry, unchanged.
        media_type: the media type that the registry returned, or an empty string. The media type in the document must
            match it.

    Raises:
        CacheError: the document is neither a manifest nor an index, is ambiguous, or has an invalid descriptor.
    """
    fields = _decode_members(content)
    media_type = media_type.partition(";")[0].strip().lower()
    known = MANIFEST_TYPES | INDEX_TYPES
    if {"manifests", "layers"} <= fields.keys() or {"manifests", "config"} <= fields.keys():
        raise CacheError("a manifest has the fields of both an image and an index")
    document: Index | Manifest
    try:
        document = msgspec.convert(fields, Index) if "manifests" in fields else msgspec.convert(fields, Manifest)
    except msgspec.ValidationError as exc:
        raise CacheError(f"cannot decode a manifest: {exc}") from exc
    stated = document.media_type
    if stated and stated not in known:
        raise CacheError(f"a manifest has the media type {stated!r}, which is not a manifest type")
    if stated and media_type in known and stated != media_type:
        raise CacheError(f"a manifest has the media type {stated}, but the registry states {media_type}")
    if (stated or media_type) in (INDEX_TYPES if isinstance(document, Manifest) else MANIFEST_TYPES):
        raise CacheError(f"a manifest has the media type {stated or media_type}, but the fields of another type")
    if document.schema_version != 2:  # noqa: PLR2004 - the only version of the OCI specification
        raise CacheError(f"a manifest has schema version {document.schema_version}; only version 2 is supported")
    _check_descriptors(document)
    return document


def _decode_members(content: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; all JSON parsers must interpret them in the same way.

    Otherwise, an attacker could use a document that two parsers interpret differently. If a name is repeated, some
    parsers use the first value and others use the last value. Go's parser also ignores case. A null member is treated
    as missing or empty, as in Go.
    """
    try:
        # msgspec parses strictly, and the `json` module is used to detect repeated names.
        msgspec.json.decode(content)
        fields = json.loads(content, object_pairs_hook=_require_unique)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise CacheError(f"a manifest is not valid JSON: {exc}") from exc
    if not isinstance(fields, dict):
        raise CacheError("a manifest is not a JSON object")
    if len({name.lower() for name in fields}) != len(fields):
        raise CacheError("a manifest has members whose names differ only in case")
    return fields


def _require_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name is repeated")
    present = ((name, [] if value is None and name in _LISTS else value) for name, value in pairs)
    return {name: value for name, value in present if value is not None}


def _check_descriptors(document: Manifest | Index) -> None:
    listed = document.manifests if isinstance(document, Index) else (document.config, *document.layers)
    if isinstance(document, Manifest) and len(document.layers) > MAX_LAYERS:
        raise CacheError(f"an image has {len(document.layers)} layers; at most {MAX_LAYERS} are allowed")
    for descriptor in (*listed, *((document.subject,) if document.subject else ())):
        if not is_digest(descriptor.digest) or not 0 <= descriptor.size <= _MAX_SIZE_BYTES:
            raise CacheError(
                f"a manifest has an invalid descriptor: digest {descriptor.digest!r}, size {descriptor.size}"
            )


def decode_config(content: bytes) -> ImageConfig:
    """Decode the configuration of an image.

    Raises:
        CacheError: the document is not a configuration.
    """
    try:
        return _image_config.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise CacheError(f"cannot decode the configuration of an image: {exc}") from exc
