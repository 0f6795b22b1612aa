"""Current pods of a namespace, read from the API server."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from accelkit.cachecontroller.claim_pods import ObservedPod, read_claim_pod, trim_pod
from accelkit.cachecontroller.cluster_view import ClaimPod
from accelkit.errors import AccelkitError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all, name_unreadable
from accelkit.kube.paths import build_collection_path

# Many caches of one namespace may list its pods concurrently.
_REUSE_SECONDS: Final = 1.0


class UnreadablePodError(AccelkitError):
    """A pod could not be parsed, so its mounts are unknown."""


_Pods: TypeAlias = list[ClaimPod]


@dataclass(frozen=True, slots=True)
class _List:
    began: float
    pods: _Pods


class LivePods:
    """Reader for current pods. Concurrent callers share one list request.

    Args:
        api: open client.
        clock: function that returns the seconds of a monotonic clock.
    """

    def __init__(self, api: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._lists: dict[str, _List] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def read(self, namespace: str, since: float) -> _Pods:
        """Return the pods that mount claims and have not terminated, from a list request that started after `since`.

        Args:
            namespace: namespace of the pods.
            since: earliest start of the list, on `clock`.

        Raises:
            ApiError: the API server rejected the request or did not respond.
            UnreadablePodError: the mounts of a pod are unknown.
        """
        async with self._locks[namespace]:
            known = self._lists.get(namespace)
            now = self._clock()
            if known is None or known.began <= since or now - known.began > _REUSE_SECONDS:
                known = _List(now, await self._read(namespace))
                # Drop old lists of other namespaces, which may be long.
                self._lists = {name: each for name, each in self._lists.items() if now - each.began <= _REUSE_SECONDS}
                self._lists[namespace] = known
            return known.pods

    async def _read(self, namespace: str) -> _Pods:
        unreadable: list[bytes] = []
        # Without a resourceVersion, the API server returns a consistent list instead of its cached state.
        found, _ = await list_all(
            self._api,
            build_collection_path("v1", "pods", namespace),
            ObservedPod,
            trim=trim_pod,
            on_unreadable=lambda text, _error: unreadable.append(text),
        )
        if unreadable:
            raise UnreadablePodError(
                f"cannot check whether pod {name_unreadable(unreadable[0])} writes to a cache: invalid pod"
            )
        return [pod for each in found if (pod := read_claim_pod(each)) is not None]
