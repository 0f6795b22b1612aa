"""A registry client that visits registries of this process, and small images to find there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from registries.hostile import HostileRegistry
from registries.memory import MANIFEST, digest_of

from accelkit.kernelcache.oci.documents import Descriptor
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings

__all__ = ["REPOSITORY", "at", "descriptor", "image", "manifest", "visiting"]

REPOSITORY = "team/app"

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


@contextlib.asynccontextmanager
async def visiting(
    *plain: HostileRegistry, plain_names: tuple[str, ...] = (), naps: list[float] | None = None, **settings: Any
) -> AsyncIterator[RegistryClient]:
    """A client to which these registries may be plain HTTP. It never sleeps, and notes in `naps` how long it would."""
    noted = [] if naps is None else naps

    async def nap(seconds: float) -> None:
        noted.append(seconds)

    allowed = frozenset({*plain_names, *(registry.host for registry in plain)})
    async with RegistryClient(RegistrySettings(plain_http=allowed, **settings), sleep=nap) as client:
        yield client


def at(registry: HostileRegistry, version: str | None = None) -> Reference:
    """The repository of the tests there, with a tag or a digest."""
    if version is not None and version.startswith("sha256:"):
        return Reference(registry.host, REPOSITORY, digest=version)
    return Reference(registry.host, REPOSITORY, version)


def descriptor(body: bytes, media_type: str = _LAYER) -> Descriptor:
    """What a manifest says of a blob."""
    return Descriptor(media_type, digest_of(body), len(body))


def manifest(**more: object) -> bytes:
    """An image without layers; `more` goes over its members."""
    config = {"mediaType": _CONFIG, "digest": digest_of(b"{}"), "size": 2}
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [], **more}).encode()


def image(registry: HostileRegistry, tag: str | None = None, **more: object) -> str:
    """Keep such an image; its digest is returned."""
    return registry.put_manifest(REPOSITORY, tag, manifest(**more))
