"""Pods of a namespace as the API server has them now."""

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

# Many caches of one namespace ask at once.
_REUSE_SECONDS: Final = 1.0


class UnreadablePodError(AccelkitError):
    """A pod cannot be read, so that nobody knows what it mounts."""


_Pods: TypeAlias = list[ClaimPod]


@dataclass(frozen=True, slots=True)
class _List:
    began: float
    pods: _Pods


class LivePods:
    """Lists pods, once for all who ask at the same time.

    Args:
        api: an open client.
        clock: seconds on a clock that never jumps.
    """

    def __init__(self, api: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._lists: dict[str, _List] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def read(self, namespace: str, since: float) -> _Pods:
        """Return the pods that mount claims and have not ended, by a list that began after a moment.

        Args:
            namespace: of the pods.
            since: by the clock.

        Raises:
            ApiError: the API server refused, or did not answer.
            UnreadablePodError: of a pod nobody knows what it mounts.
        """
        async with self._turns[namespace]:
            known = self._lists.get(namespace)
            now = self._clock()
            if known is None or known.began <= since or now - known.began > _REUSE_SECONDS:
                known = _List(now, await self._read(namespace))
                # Those of other namespaces are of no more use, and may be long.
                self._lists = {name: each for name, each in self._lists.items() if now - each.began <= _REUSE_SECONDS}
                self._lists[namespace] = known
            return known.pods

    async def _read(self, namespace: str) -> _Pods:
        unreadable: list[bytes] = []
        # Without a resourceVersion, so that what is answered was written: no cache of an API server is asked.
        found, _ = await list_all(
            self._api,
            build_collection_path("v1", "pods", namespace),
            ObservedPod,
            trim=trim_pod,
            on_unreadable=lambda text, _error: unreadable.append(text),
        )
        if unreadable:
            raise UnreadablePodError(f"pod {name_unreadable(unreadable[0])} cannot be read, and may write to a cache")
        return [pod for each in found if (pod := read_claim_pod(each)) is not None]
