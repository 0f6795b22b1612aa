"""Removal of accelkit's scheduling gate from pods, with a check that the pod was not replaced.

Before the gate is lifted, the node of the reservation is written as the nominated node, which kube-scheduler tries
first. Otherwise, in clusters with more than 100 nodes, kube-scheduler might not send this node to the extender.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final

from accelkit.back_off import BackOff
from accelkit.errors import ApiError
from accelkit.extender.groups.group_index import Member
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_pod_path
from accelkit.logs import Facts, RepeatLog
from accelkit.model.keys import POD_GROUP_GATE
from accelkit.model.pod import PodRef

log = logging.getLogger(__name__)

# Maximum number of concurrent patches; the subsequent Bindings are additional requests.
_AT_ONCE: Final = 32
# Status codes of the response to a JSON patch whose test failed.
_CHANGED: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
# Shortest and longest delay before the retry of a rejected patch.
_BACK_OFF: Final = BackOff(1.0, 30.0)


class GateLifter:
    """Component that lifts accelkit's gates.

    Args:
        api: an open client.
        find_node: a function that returns the node on which a pod has cards; empty if it has no cards.
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self, api: ApiClient, find_node: Callable[[str], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._find_node, self._clock = api, find_node, clock
        self._repeats = RepeatLog(log, clock=clock)
        self._lifted: set[str] = set()
        # For each pod whose patch was rejected: the time of the next attempt, and the number of failures.
        self._refused: dict[str, tuple[float, int]] = {}

    async def lift(self, members: Iterable[Member]) -> None:
        """Lift the gate of each member, unless the gate was already lifted or the patch was rejected recently."""
        now = self._clock()
        todo = [each for each in members if self._is_due(each.ref.uid, now)]
        turns = asyncio.Semaphore(_AT_ONCE)

        async def lift_one(member: Member) -> None:
            async with turns:
                await self._lift(member)

        await asyncio.gather(*map(lift_one, todo))

    def discard(self, uid: str) -> None:
        """Discard the record of a pod that has no gate or was deleted."""
        self._lifted.discard(uid)
        self._refused.pop(uid, None)

    def _is_due(self, uid: str, now: float) -> bool:
        not_before, _ = self._refused.get(uid, (now, 0))
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
            # The pod was replaced or changed by another client; the watch will report it.
            if not exc.not_found and exc.status not in _CHANGED:
                self._pause(ref, str(exc))
            return
        self._lifted.add(ref.uid)
        self._refused.pop(ref.uid, None)

    def _pause(self, ref: PodRef, error: str) -> None:
        failures = self._refused.get(ref.uid, (0.0, 0))[1] + 1
        self._refused[ref.uid] = self._clock() + _BACK_OFF.compute(failures), failures
        self._repeats.warn((ref.uid,), Facts("gate not lifted, will retry", pod=str(ref), uid=ref.uid, error=error))
