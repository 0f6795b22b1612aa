"""Periodic comparison of all pods with what the watch delivered, which heals events that were lost silently.

The API server lists the metadata of all pods. If the watch does not deliver a listed version within a few seconds, the
event of that pod was lost. Then all pods are listed anew, as after a broken watch.
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

# A list of 50,000 pods is about 100 MB of metadata, so the pause grows with the number of pods, to 5 minutes for these.
_LEAST_PAUSE_SECONDS: Final = 15.0
_PAUSE_SECONDS_PER_POD: Final = 0.006
# The time that the watch has to deliver what a list shows already.
_WATCH_LAG_SECONDS: Final = 3.0


class PodComparison:
    """Compares the versions of all pods with those that the feed has taken over.

    Args:
        api: an open client.
        feed: the versions that were taken over.
        compares: whether a comparison is due: this replica leads, and its watch is open.
        relist: lists all pods anew.
        lost: counts the pods of which an event was lost.
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
        # What a list did not heal, as a pod that cannot be read: it is not listed for again in the same version.
        self._listed_for: dict[str, str] = {}

    async def run(self) -> None:
        """Compare until cancelled."""
        while True:
            await asyncio.sleep(max(_LEAST_PAUSE_SECONDS, _PAUSE_SECONDS_PER_POD * self._pods))
            if self._compares():
                try:
                    await self.compare()
                except ApiError as exc:
                    log.info(Facts("pods not compared", error=str(exc)))

    async def compare(self) -> None:
        """Compare once; list all pods anew where the watch has lost an event.

        Raises:
            ApiError: the API server refused or did not answer.
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
        lost = {uid: shown for uid, shown in differences.items() if self._listed_for.get(uid) != shown}
        self._listed_for = differences
        if lost:
            names = sorted(f"{each.namespace}/{each.name}" for each in listed if each.uid in lost)
            log.warning(Facts("lost events of pods, listing all pods anew", pods=len(lost), first=",".join(names[:5])))
            self._lost.inc(len(lost))
            self._relist()
