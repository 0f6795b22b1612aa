"""Periodic comparison of all pods with the pods from the watch, to detect missed events.

The API server lists the metadata of all pods. If the watch does not deliver a listed version within a few seconds, the
watch missed an event for this pod. All pods are then listed again, as after an interrupted watch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from prometheus_client import Counter

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_identities
from accelkit.kube.paths import PODS
from accelkit.ledger.feed import LedgerFeed
from accelkit.logs import Facts

log = logging.getLogger(__name__)

# Minimum pause between two comparisons. A list of 50,000 pods is about 100 MB of metadata, so the pause grows with the
# number of pods: it is 5 minutes for 50,000 pods.
_LEAST_PAUSE_SECONDS: Final = 15.0
_PAUSE_SECONDS_PER_POD: Final = 0.006
# Time within which the watch must deliver a listed version.
_WATCH_LAG_SECONDS: Final = 3.0


class PodComparison:
    """Comparison of the resource versions of all pods with the versions that the feed has applied.

    Args:
        api: an open client.
        feed: the feed with the applied versions.
        compares: a function that returns whether this replica is the leader and its watch is open.
        relist: a function that lists all pods again.
        lost: the counter of pods for which the watch missed an event.
    """

    def __init__(
        self,
        api: ApiClient,
        feed: LedgerFeed,
        *,
        compares: Callable[[], bool],
        relist: Callable[[], None],
        lost: Counter,
    ) -> None:
        self._api, self._feed = api, feed
        self._compares, self._relist, self._lost = compares, relist, lost
        self._pods = 0
        # Versions of pods that differ even after a new list, for example because the pods are unreadable. The pods are
        # not listed again because of the same version.
        self._listed_for: dict[str, str] = {}

    async def run(self) -> None:
        """Compare repeatedly until cancelled."""
        while True:
            await asyncio.sleep(max(_LEAST_PAUSE_SECONDS, _PAUSE_SECONDS_PER_POD * self._pods))
            if self._compares():
                try:
                    await self.compare()
                except ApiError as exc:
                    log.info(Facts("pods not compared", error=str(exc)))

    async def compare(self) -> None:
        """Compare the pods with a list of their metadata; list all pods again if the watch missed an event.

        Raises:
            ApiError: the API server rejected the request or did not respond.
        """
        listed, version = await list_identities(self._api, PODS)
        self._pods = len(listed)
        if not self._feed.list_differences(listed, version):
            self._listed_for.clear()
            return
        await asyncio.sleep(_WATCH_LAG_SECONDS)
        if not self._compares():
            return
        differences = self._feed.list_differences(listed, version)
        lost = {uid: version for uid, version in differences.items() if self._listed_for.get(uid) != version}
        self._listed_for = differences
        if lost:
            names = sorted(f"{each.namespace}/{each.name}" for each in listed if each.uid in lost)
            log.warning(Facts("events of pods lost, listing all pods again", pods=len(lost), first=",".join(names[:5])))
            self._lost.inc(len(lost))
            self._relist()
