"""Cache preparation: reading of labels, verification, extraction, and classification of failures."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Self

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.world import RETRIES, Attempt, ImageFacts
from accelkit.errors import AccelkitError, CacheError, RegistryError
from accelkit.gkm.conditions import Reason
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.kernelcache.extraction import ExtractionRequest, ExtractionResult, Limits, extract_image
from accelkit.kernelcache.formats.cache_image import read_cache_image
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RegistryClient, RegistryCredentials, RegistrySettings
from accelkit.kernelcache.registry.pull_secrets import PullSecretError
from accelkit.kernelcache.signatures import SignerPolicies, UnverifiedError

# Maximum time to wait while another process extracts the same image. After this time, the work is retried later.
_LOCK_SECONDS = 60.0


class Preparation:
    """Reader and extractor for cache images. Use it as an asynchronous context manager.

    Args:
        root: folder of the store.
        settings: connection settings for registries.
        read_logins: function that returns the credentials for a cache.
    """

    def __init__(
        self,
        root: Path,
        settings: RegistrySettings,
        read_logins: Callable[[DesiredCache], Awaitable[RegistryCredentials]],
    ) -> None:
        self._root = root
        self._settings = settings
        self._read_logins = read_logins
        self._client = RegistryClient(settings)

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.__aexit__()

    async def read_image_facts(self, desired: DesiredCache) -> ImageFacts:
        """Return facts from the manifest and configuration of an image, without fetching its layers.

        Raises:
            AccelkitError: the image cannot be read, or is not a cache image.
        """
        async with AsyncExitStack() as stack:
            client, image = await self._choose_client(stack, desired), _require_image(desired)
            found = await read_cache_image(client, image, await client.read_manifest(image))
        return ImageFacts(found.labels, sum(layer.size for layer in found.manifest.layers))

    async def extract(
        self, desired: DesiredCache, policies: SignerPolicies, node: NodeHardware, room_bytes: int
    ) -> ExtractionResult:
        """Verify and extract an image. If the image is already extracted, verify it only if necessary.

        Args:
            desired: desired state of the cache.
            policies: signer policies that cover the image.
            node: cards and CPU of the node. An image that fits no card is not fetched.
            room_bytes: maximum size of the extracted cache.

        Raises:
            AccelkitError: the image was rejected or could not be fetched.
        """
        async with AsyncExitStack() as stack:
            client = await self._choose_client(stack, desired)
            return await extract_image(client, build_request(self._root, desired, policies, node, room_bytes))

    async def _choose_client(self, stack: AsyncExitStack, desired: DesiredCache) -> RegistryClient:
        if not desired.secrets:
            return self._client
        # Other caches must not use connections with these credentials.
        settings = replace(self._settings, credentials=await self._read_logins(desired))
        return await stack.enter_async_context(RegistryClient(settings))


def build_request(
    root: Path,
    desired: DesiredCache,
    policies: SignerPolicies,
    node: NodeHardware | None = None,
    room_bytes: int | None = None,
) -> ExtractionRequest:
    """Return the extraction request for a cache."""
    limits = Limits()
    if room_bytes is not None:
        limits = replace(limits, total_bytes=min(limits.total_bytes, room_bytes))
    return ExtractionRequest(
        image=_require_image(desired),
        base=root,
        policies=policies,
        namespace=desired.namespace or None,
        mount_path=desired.mount_path or None,
        limits=limits,
        node=node,
        lock_seconds=_LOCK_SECONDS,
        protect=True,
    )


def note_failure(error: AccelkitError, former: Attempt | None, about: str, now: float) -> Attempt:
    """Return the record of a failed attempt, which may be a rejection or a temporary error.

    Args:
        error: raised error.
        former: previous attempt, which is ignored if its inputs were different.
        about: text that identifies the inputs of the work.
        now: time on the agent's clock, in seconds.
    """
    failures = 1 + (former.failures if former is not None and former.about == about else 0)
    reason, refused = _classify(error)
    return Attempt(about, failures, reason, str(error), now + RETRIES.compute(failures), refused=refused)


def _classify(error: AccelkitError) -> tuple[str, bool]:
    if isinstance(error, UnverifiedError):
        return str(error.reason), not error.reason.retryable
    if isinstance(error, PullSecretError):
        return Reason.PULL_SECRET_UNREADABLE, False
    if isinstance(error, RegistryError):
        return (Reason.REGISTRY_UNAVAILABLE if error.retryable else Reason.EXTRACTION_FAILED), False
    if isinstance(error.__cause__, OSError) and error.__cause__.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Reason.NODE_FULL, False
    return (Reason.EXTRACTION_FAILED if isinstance(error, CacheError) else Reason.RETRYING), False


def _require_image(desired: DesiredCache) -> Reference:
    if desired.image is None:
        raise CacheError(f"{desired.key} has no digest")
    return desired.image
