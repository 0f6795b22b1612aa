"""Lifts our gate from pods, and from no other pod of the same name.

Before, the node of the reservation is written where kube-scheduler looks for a node that it tries first. In clusters of
more than 100 nodes it asks us about a part of them only, in which that node need not be.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

from accelkit.errors import ApiError
from accelkit.extender.groups.membership import GATE
from accelkit.extender.groups.roster import Member
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_pod_path

log = logging.getLogger(__name__)

# So many at once, beside the Bindings that follow.
_AT_ONCE: Final = 32
# What a JSON patch is answered whose test does not hold.
_CHANGED: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})


class GateLifter:
    """Lifts gates.

    Args:
        api: an open client.
        find_node: returns where cards are reserved for a pod, empty where none are.
    """

    def __init__(self, api: ApiClient, find_node: Callable[[str], str]) -> None:
        self._api, self._find_node = api, find_node
        self._lifted: set[str] = set()

    async def lift(self, members: Iterable[Member]) -> bool:
        """Lift the gate of each of them that was not lifted yet; False where the API server refused one."""
        todo = [each for each in members if each.ref.uid not in self._lifted]
        turns = asyncio.Semaphore(_AT_ONCE)

        async def lift_one(member: Member) -> bool:
            async with turns:
                return await self._lift(member)

        return all(await asyncio.gather(*map(lift_one, todo)))

    def forget(self, uid: str) -> None:
        """Forget a pod that has no gate, or is gone."""
        self._lifted.discard(uid)

    async def _lift(self, member: Member) -> bool:
        ref = member.ref
        place = f"/spec/schedulingGates/{member.place}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": ref.uid},
            {"op": "test", "path": f"{place}/name", "value": GATE},
            {"op": "remove", "path": place},
        ]
        path = build_pod_path(ref.namespace, ref.name)
        try:
            if node := self._find_node(ref.uid):
                nominated = {"metadata": {"uid": ref.uid}, "status": {"nominatedNodeName": node}}
                await self._api.patch(f"{path}/status", nominated)
            await self._api.patch(path, patch, kind="json")
        except ApiError as exc:
            # It is another one now, or somebody was faster: the watch will show it.
            if exc.not_found or exc.status in _CHANGED:
                return True
            log.warning("the gate of pod %s cannot be lifted, tried again: %s", ref, exc)
            return False
        self._lifted.add(ref.uid)
        return True
