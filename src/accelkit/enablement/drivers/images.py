"""Check of whether driver images exist in their registries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings

_AT_ONCE: Final = 4


async def find_images(images: Iterable[str], settings: RegistrySettings) -> dict[str, bool | None]:
    """Return whether each image exists; None if the registry did not respond, or the image name is invalid.

    Args:
        images: the images, each with a tag or digest.
        settings: the settings of the registries.
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    async with RegistryClient(settings) as client:

        async def find(image: str) -> bool | None:
            async with limit:
                return await _find(client, image)

        listed = sorted(set(images))
        return dict(zip(listed, await asyncio.gather(*(find(image) for image in listed)), strict=True))


async def _find(client: RegistryClient, image: str) -> bool | None:
    try:
        await client.read_manifest(parse_reference(image))
    except RegistryError as exc:
        return False if exc.missing and not exc.beside_mirrors else None
    except CacheError:
        return None
    return True
