"""Gives the groups whose pods are gated their cards together, and withdraws what is not bound in time.

Members under our gate are not seen by kube-scheduler. Once enough of them are there, cards are reserved for all of them
in one step, and then their gates are lifted: filter leaves each the node of its reservation. Nothing is ever reserved
for a part of a group, so no two groups can wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from accelkit.extender.groups.batches import describe_missing
from accelkit.extender.groups.binds import GroupParts
from accelkit.extender.groups.gates import GateLifter
from accelkit.extender.groups.membership import GroupKey
from accelkit.extender.groups.roster import Group, GroupSizeError, Member
from accelkit.extender.groups.telling import GroupTeller
from accelkit.ledger.freed import FreedNodes
from accelkit.model.pod import PodRef
from accelkit.reporting import OnceReporter

log = logging.getLogger(__name__)

# Changes that come together are looked at together.
_TURN_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 0.5
# Until a group that does not fit is tried again: at first, and at most. Changed pods and freed cards make it earlier.
_BACK_OFF_SECONDS: Final = (1.0, 30.0)


@dataclass(slots=True)
class _Try:
    not_before: float
    delay: float
    version: int
    reason: str


class GroupController:
    """Decides for all groups.

    Args:
        parts: what decides.
        gates: lifts gates.
        teller: tells people.
        seconds: how long a reservation lasts.
        leads: returns whether this replica decides, on what the API server says now.
        clock: seconds on a clock that never jumps.
    """

    def __init__(
        self,
        parts: GroupParts,
        gates: GateLifter,
        teller: GroupTeller,
        seconds: float,
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._roster, self._batches = parts, parts.roster, parts.batches
        self._gates, self._teller = gates, teller
        self._seconds, self._leads, self._clock = seconds, leads, clock
        self._freed = FreedNodes(parts.ledger)
        self._tries: dict[GroupKey, _Try] = {}
        self._errors = OnceReporter(log, logging.ERROR)

    def note_pod(self, uid: str) -> None:
        """Note that a pod of a group has changed."""
        group = self._roster.find(uid)
        if group is None or uid not in group.waiting:
            self._batches.end(uid, bound=group is not None)
            self._gates.forget(uid)
        else:
            self._batches.leave(uid, group.key)
        self._parts.changes.note()

    def note_pods(self) -> None:
        """Note that all pods were read anew."""
        for uid in self._batches.list_uids():
            self.note_pod(uid)
        self._parts.changes.note()

    def give_up(self, uid: str, reason: str) -> None:
        """Withdraw what is reserved for the group of a pod, whose bind was held in vain."""
        if (key := self._batches.find_of(uid)) is not None:
            self._withdraw(key, reason)

    async def run(self) -> None:
        """Decide until cancelled."""
        while True:
            await self._look_again()

    async def _look_again(self) -> None:
        changed = self._parts.changes.get()
        await self.look()
        await asyncio.sleep(_TURN_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_SECONDS):
                await changed.wait()

    async def look(self) -> None:
        """Look at all groups once: withdraw what is overdue, reserve, and lift gates."""
        if not self._leads():
            for key in self._batches.list_keys():
                self._withdraw(key, f"pod group {key}: this replica of the extender decides no more")
            return
        now = self._clock()
        if self._freed.find():
            # All at once, and one after the other, the oldest first.
            for each in self._tries.values():
                each.not_before = min(each.not_before, now)
        for key in self._batches.list_overdue(now):
            reason = f"pod group {key}: kube-scheduler has not placed all of its pods within {self._seconds:g} s"
            self._withdraw(key, reason)
        reasons: dict[GroupKey, tuple[str, PodRef]] = {}
        liftable: list[Member] = []
        for group in self._roster.list_waiting():
            if reason := self._try_to_decide(group, now, liftable):
                oldest = min(group.waiting.values(), key=lambda each: (each.created_at, each.ref.name))
                reasons[group.key] = reason, oldest.ref
        for key in self._tries.keys() - reasons.keys():
            del self._tries[key]
        await self._gates.lift(liftable)
        await self._teller.tell(reasons, now)

    def _try_to_decide(self, group: Group, now: float, liftable: list[Member]) -> str:
        try:
            return self._decide(group, now, liftable)
        except Exception as exc:  # noqa: BLE001 - one group must not end the service
            self._errors.report(str(group.key), f"pod group {group.key} cannot be decided", error=exc)
            return f"pod group {group.key} cannot be decided"

    def _decide(self, group: Group, now: float, liftable: list[Member]) -> str:
        """Reserve for a group with gates where it is time; return what it waits for, empty where it does not."""
        try:
            size = self._roster.read_size(group)
        except GroupSizeError as exc:
            return str(exc)
        standing = self._batches.judge(group)
        if reason := describe_missing(group, standing, size):
            if self._batches.find(group.key) is not None:
                self._withdraw(group.key, reason)
            return reason
        gated = any(each.gated for each in group.waiting.values())
        if gated and standing.lacking:
            if reason := self._try_again(group, size, now):
                return reason
            standing = self._batches.judge(group)
        if gated and standing.settled >= size:
            liftable += standing.liftable
        return ""

    def _try_again(self, group: Group, size: int, now: float) -> str:
        last = self._tries.get(group.key)
        if last is not None and last.version == group.version and now < last.not_before:
            return last.reason
        reason = self._batches.reserve(group, size, now)
        if reason:
            least, most = _BACK_OFF_SECONDS
            delay = least if last is None or last.version != group.version else min(most, 2 * last.delay)
            self._tries[group.key] = _Try(now + delay, delay, group.version, reason)
        return reason

    def _withdraw(self, key: GroupKey, reason: str) -> None:
        try:
            self._teller.note_released(self._batches.withdraw(key, reason), reason)
        except Exception as exc:  # noqa: BLE001 - one group must not end the service
            self._errors.report(str(key), f"what is reserved for pod group {key} cannot be withdrawn", error=exc)
        self._parts.changes.note()
