"""Lookup of caches that a pod uses, but that the watch has not reported yet."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from accelkit.errors import ApiError
from accelkit.gkm.names import API, CLUSTER_CACHES, split_pinned_claim
from accelkit.gkm.objects import Cache
from accelkit.kube.client import ApiClient
from accelkit.kube.nesting import decode
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

log = logging.getLogger(__name__)

# The API server calls the webhook before it validates the pod, so a name can be any text.
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
# Limits on lookups, because any client that can reach the port can send reviews of pods with unknown claims.
_MOST_CLAIMS: Final = 32
_MOST_REQUESTS: Final = 4
# Timeout that is shorter than the timeout of the API server for the webhook.
_SECONDS: Final = 1.5


_cache = msgspec.json.Decoder(Cache)


class CacheLookup:
    """Reader for single caches on the API server.

    Args:
        api: open client.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._semaphore = asyncio.Semaphore(_MOST_REQUESTS)

    async def find(self, namespace: str, claims: Iterable[str]) -> list[Cache]:
        """Return the caches to which these claims of a namespace belong.

        A cache that was created before the pod is always found. Errors are only logged, because admission policies
        reject a pod that mounts an unknown cache.

        Args:
            namespace: namespace of the pod.
            claims: unvalidated names of claims or caches.
        """
        if not _NAME.fullmatch(namespace):
            return []
        valid = sorted(each for each in set(claims) if _NAME.fullmatch(each))[:_MOST_CLAIMS]
        names = sorted({name for claim in valid for name in (claim, split_pinned_claim(claim)[0]) if name})
        collections = (build_collection_path(API, "gkmcaches", namespace), CLUSTER_CACHES)
        paths = [build_object_path(collection, name) for name in names for collection in collections]
        found: list[Cache] = []
        try:
            async with asyncio.timeout(_SECONDS):
                for path in paths:
                    found += await self._read(path)
        except (ApiError, TimeoutError) as exc:
            log.warning("caches not looked up: namespace=%s error=%s", namespace, str(exc) or "timeout")
        return found

    async def _read(self, path: str) -> list[Cache]:
        async with self._semaphore:
            text = await get_if_present(self._api, path)
        try:
            return [decode(_cache, text)] if text is not None else []
        except msgspec.MsgspecError as exc:
            log.warning("cache unreadable: path=%s error=%s", path, exc)
            return []
