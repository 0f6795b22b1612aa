"""Lifts our gate from pods, and from no other pod of the same name.

Before, the node of the reservation is written where kube-scheduler looks for a node that it tries first. In clusters of
more than 100 nodes it asks us about a part of them only, in which that node need not be.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

from accelkit.errors import ApiError
from accelkit.extender.groups.group_index import Member
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_pod_path
from accelkit.logs import Facts, RepeatLog
from accelkit.model.keys import POD_GROUP_GATE
from accelkit.model.pod import PodRef

log = logging.getLogger(__name__)

# So many at once, beside the Bindings that follow.
_AT_ONCE: Final = 32
# What a JSON patch is answered whose test does not hold.
_CHANGED: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
# Until a pod whose patch was refused is tried again: at first, and at most.
_BACK_OFF_SECONDS: Final = (1.0, 30.0)


class GateLifter:
    """Lifts gates.

    Args:
        api: an open client.
        find_node: returns where cards are reserved for a pod, empty where none are.
        clock: seconds on a clock that never jumps.
    """

    def __init__(
        self, api: ApiClient, find_node: Callable[[str], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._find_node, self._clock = api, find_node, clock
        self._repeats = RepeatLog(log, clock=clock)
        self._lifted: set[str] = set()
        # Of those that were refused: when they are tried again, and how long they wait for that.
        self._refused: dict[str, tuple[float, float]] = {}

    async def lift(self, members: Iterable[Member]) -> None:
        """Lift the gate of each of them that was not lifted yet, nor refused shortly before."""
        now = self._clock()
        todo = [each for each in members if self._is_due(each.ref.uid, now)]
        turns = asyncio.Semaphore(_AT_ONCE)

        async def lift_one(member: Member) -> None:
            async with turns:
                await self._lift(member)

        await asyncio.gather(*map(lift_one, todo))

    def forget(self, uid: str) -> None:
        """Forget a pod that has no gate, or is gone."""
        self._lifted.discard(uid)
        self._refused.pop(uid, None)

    def _is_due(self, uid: str, now: float) -> bool:
        not_before, _ = self._refused.get(uid, (now, 0.0))
        return uid not in self._lifted and now >= not_before

    async def _lift(self, member: Member) -> None:
        ref = member.ref
        place = f"/spec/schedulingGates/{member.place}"
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": ref.uid},
            {"op": "test", "path": f"{place}/name", "value": POD_GROUP_GATE},
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
            if not exc.not_found and exc.status not in _CHANGED:
                self._pause(ref, str(exc))
            return
        self._lifted.add(ref.uid)
        self._refused.pop(ref.uid, None)

    def _pause(self, ref: PodRef, error: str) -> None:
        least, most = _BACK_OFF_SECONDS
        _, last = self._refused.get(ref.uid, (0.0, 0.0))
        delay = min(most, 2 * last) if last else least
        self._refused[ref.uid] = self._clock() + delay, delay
        self._repeats.warn((ref.uid,), Facts("gate not lifted, tried again", pod=str(ref), uid=ref.uid, error=error))
