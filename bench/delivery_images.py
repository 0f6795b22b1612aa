"""Signed cache images that differ in their digest alone, so that each is new to a node at the cost of one upload."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from accelkit.kernelcache.oci.documents import OCI_CONFIG, OCI_MANIFEST, Descriptor
from accelkit.kernelcache.oci.platform import read_host_architecture
from accelkit.kernelcache.oci.reference import compute_digest, parse_reference
from accelkit.kernelcache.publishing.build import BuildOptions, BuiltImage, build_image
from accelkit.kernelcache.publishing.layer_writer import write_image_config
from accelkit.kernelcache.publishing.signing import Cosign
from accelkit.kernelcache.registry import RegistryClient

# Each starts a process of its own.
SIGNED_AT_ONCE = 4


@dataclass(frozen=True)
class Publisher:
    """A registry and a key.

    Attributes:
        client: an open one.
        registry: as this machine names it.
        reached: as pods name it.
        key: of cosign.
    """

    client: RegistryClient
    registry: str
    reached: str
    key: Path

    async def publish(self, folder: Path, repository: str, count: int) -> list[str]:
        """Push a cache so many times, each with a digest of its own; return the names by digest, as pods see them."""
        place = parse_reference(f"{self.registry}/{repository}:base")
        built = await build_image(folder, place, BuildOptions(), self.client)
        digests = [await self._vary(built, repository, number) for number in range(count)]
        limit = asyncio.Semaphore(SIGNED_AT_ONCE)
        await asyncio.gather(*(self._sign(f"{self.registry}/{repository}@{digest}", limit) for digest in digests))
        return [f"{self.reached}/{repository}@{digest}" for digest in digests]

    async def _vary(self, built: BuiltImage, repository: str, number: int) -> str:
        reference = parse_reference(f"{self.registry}/{repository}:v{number}")
        labels = {**built.labels, "bench.accelkit.io/number": str(number)}
        config = write_image_config(built.layer, labels, architecture=read_host_architecture())
        blob = Descriptor(OCI_CONFIG, compute_digest(config), len(config))
        await self.client.uploads.push_blob(reference, blob, partial(_read, config))
        manifest = json.loads(built.manifest)
        manifest["config"] |= {"digest": blob.digest, "size": blob.size}
        return await self.client.uploads.push_manifest(reference, json.dumps(manifest).encode(), OCI_MANIFEST)

    async def _sign(self, image: str, limit: asyncio.Semaphore) -> None:
        async with limit:
            await Cosign(key=str(self.key), log=False, plain_http=True).sign(parse_reference(image))


async def _read(content: bytes) -> AsyncIterator[bytes]:
    yield content
