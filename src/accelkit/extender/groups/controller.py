"""Controller that reserves cards for groups of gated pods, and withdraws reservations that expire.

kube-scheduler ignores members with accelkit's gate. When enough members exist, the controller reserves cards for all
members in one step, and then lifts their gates. For each of these pods, filter returns only the node of its
reservation. Cards are never reserved for only some members of a group, so two groups cannot wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from accelkit.back_off import BackOff
from accelkit.extender.groups.batches import GroupState, describe_missing
from accelkit.extender.groups.gates import GateLifter
from accelkit.extender.groups.group_events import GroupEvents
from accelkit.extender.groups.group_index import Group, GroupSizeError, Member
from accelkit.extender.groups.membership import GroupKey
from accelkit.extender.groups.pacing import Pace
from accelkit.extender.groups.parts import GroupParts
from accelkit.ledger.freed import FreedNodes
from accelkit.model.pod import PodRef
from accelkit.reporting import OnceReporter

log = logging.getLogger(__name__)

# Interval during which changes are collected and then handled together.
_TURN_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 0.5
# Shortest and longest delay before the retry of a group that does not fit. Freed cards or new pods end the delay.
_BACK_OFF: Final = BackOff(1.0, 30.0)
# Time for which the reason of an unchanged group is cached.
_REASON_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Try:
    """The last failed attempt to reserve; `asked` contains the number of joined pods and the group size."""

    tried_at: float
    not_before: float
    failures: int
    asked: tuple[int, int]
    reason: str


@dataclass(frozen=True, slots=True)
class _CachedReason:
    """Cached reason why a group waits, for one version of the group."""

    version: int
    until: float
    reason: str


class GroupController:
    """Controller of all groups.

    Args:
        parts: the components that the held binds also use.
        gates: the component that lifts gates.
        group_events: the writer of Events.
        leads: a function that returns whether this replica is the leader with current data.
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        parts: GroupParts,
        gates: GateLifter,
        group_events: GroupEvents,
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._group_index, self._batches = parts, parts.group_index, parts.batches
        self._gates, self._group_events = gates, group_events
        self._leads, self._clock = leads, clock
        self._freed = FreedNodes(parts.ledger)
        self._tries: dict[GroupKey, _Try] = {}
        self._reasons: dict[GroupKey, _CachedReason] = {}
        self._pace = Pace()
        self._errors = OnceReporter(log, logging.ERROR)

    def note_pod(self, uid: str, *keys: GroupKey) -> None:
        """Record a pod change, which affects the pod's previous group and its current group."""
        group = self._group_index.find(uid)
        if group is None or uid not in group.waiting:
            self._batches.end(uid, bound=group is not None)
            self._gates.discard(uid)
        else:
            self._batches.leave(uid, group.key)
        self._parts.changes.note(*keys)

    def note_pods(self) -> None:
        """Record that all pods have been listed again."""
        for uid in self._batches.list_uids():
            self.note_pod(uid)
        self._parts.changes.note()

    async def run(self) -> None:
        """Handle all groups until cancelled."""
        while True:
            await self._run_once()

    async def _run_once(self) -> None:
        changed = self._parts.changes.get()
        await self.handle_groups()
        await asyncio.sleep(_TURN_SECONDS)
        if self._pace.spent:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_SECONDS):
                await changed.wait()

    async def handle_groups(self) -> None:
        """Handle all groups once: withdraw expired reservations, reserve cards, and lift gates."""
        if not self._leads():
            self._withdraw_all()
            return
        now, self._pace = self._clock(), Pace()
        self._note_time(now)
        reasons: dict[GroupKey, tuple[str, PodRef]] = {}
        liftable: list[Member] = []
        for key in [group.key for group in self._group_index.list_waiting()]:
            # Other tasks run between two groups, so the group may have changed.
            if (group := self._group_index.get(key)) is None:
                continue
            if reason := self._try_to_decide(group, now, liftable):
                reasons[key] = reason, group.find_oldest().ref
            if await self._pace.rest() and not self._leads():
                self._withdraw_all()
                return
        for key in self._tries.keys() - reasons.keys():
            del self._tries[key]
        for key in self._reasons.keys() - reasons.keys():
            del self._reasons[key]
        await self._gates.lift(liftable)
        await self._group_events.update(reasons, now)

    def _note_time(self, now: float) -> None:
        if self._freed.find():
            # All groups may be tried now, one by one, starting with the oldest group.
            for key, each in self._tries.items():
                each.not_before = min(each.not_before, now)
                if not self._batches.has_tried_enough(key.namespace, now):
                    self._reasons.pop(key, None)
        for key, batch in self._batches.list_overdue(now):
            reason = f"pod group {key}: kube-scheduler has not placed all of its pods within {batch.seconds:g} s"
            self._withdraw(key, reason)
            if not (batch.gated or batch.opened):
                self._batches.pause(key, now + batch.seconds / 2, now)

    def _try_to_decide(self, group: Group, now: float, liftable: list[Member]) -> str:
        try:
            return self._decide(group, now, liftable)
        except Exception as exc:  # noqa: BLE001 - one group must not end the service
            self._errors.report(str(group.key), f"cannot handle pod group {group.key}", error=exc)
            return f"pod group {group.key} waits: internal error of the extender"

    def _decide(self, group: Group, now: float, liftable: list[Member]) -> str:
        """Reserve cards for a gated group if a retry is due; return why the group waits, or an empty string."""
        cached = self._reasons.get(group.key)
        if cached is not None and cached.version == group.version and now < cached.until:
            return cached.reason
        self._pace.count(len(group.waiting))
        try:
            size = self._group_index.read_size(group)
        except GroupSizeError as exc:
            return str(exc)
        state = self._batches.judge(group)
        if reason := describe_missing(group, state, size):
            if self._batches.find(group.key) is not None:
                self._withdraw(group.key, reason)
            self._reasons[group.key] = _CachedReason(group.version, now + _REASON_SECONDS, reason)
            return reason
        gated = any(each.gated for each in group.waiting.values())
        reason = ""
        if gated and state.lacking:
            reason = self._try_again(group, size, state, now)
            if reason and state.settled < size:
                if not self._pace.spent:
                    self._reasons[group.key] = _CachedReason(group.version, now + _REASON_SECONDS, reason)
                return reason
            state = self._batches.judge(group)
        if gated and state.settled >= size:
            liftable += state.liftable
        return reason

    def _try_again(self, group: Group, size: int, state: GroupState, now: float) -> str:
        last, asked = self._tries.get(group.key), (group.joined, size)
        if last is not None:
            # With an additional pod or another size, the group may fit; other changes of its pods do not help.
            sooner = last.tried_at + _BACK_OFF.first_seconds
            if now < (last.not_before if last.asked == asked else min(last.not_before, sooner)):
                return last.reason
        if self._pace.spent or self._batches.has_tried_enough(group.key.namespace, now):
            return last.reason if last is not None else f"pod group {group.key} waits until other groups are tried"
        self._pace.count(0, placed=len(state.lacking))
        if reason := self._batches.reserve(group, size, now):
            failures = 1 if last is None or last.asked != asked else last.failures + 1
            self._tries[group.key] = _Try(now, now + _BACK_OFF.compute(failures), failures, asked, reason)
        return reason

    def _withdraw_all(self) -> None:
        for key in self._batches.list_keys():
            self._withdraw(key, f"pod group {key}: this replica of the extender is no longer the leader")

    def _withdraw(self, key: GroupKey, reason: str) -> None:
        try:
            self._group_events.note_released(self._batches.withdraw(key, reason), reason)
        except Exception as exc:  # noqa: BLE001 - one group must not end the service
            self._errors.report(str(key), f"cannot withdraw the reservations of pod group {key}", error=exc)
        self._parts.changes.note(key)
