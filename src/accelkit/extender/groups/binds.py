"""Binds of pods without gates, which are held until all pods of the group may be bound.

When kube-scheduler has placed the first member, cards are reserved for all members. If the group does not fit, the bind
of this member fails. Otherwise, each bind is held until kube-scheduler has placed enough members. A bind that times out
fails, but its pod is considered placed until the reservation ends. This is because kube-scheduler retries members one
by one, each after a delay.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from accelkit.errors import ApiError, BindingError
from accelkit.extender.bindings import read_pod_as
from accelkit.extender.groups.batches import Batch, describe_missing
from accelkit.extender.groups.group_index import Group, GroupSizeError
from accelkit.extender.groups.parts import GroupParts
from accelkit.kube.views.scheduling import SchedulingPod
from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest

_pod: Final = msgspec.json.Decoder(SchedulingPod)
# A held bind occupies one of the 128 concurrent requests of an HTTP/2 connection, or one of the server's 256 HTTP/1.1
# connections. Any user who can create pods can cause held binds.
_MOST_HELD: Final = 128
MOST_HELD_OF_NAMESPACE: Final = 64


class _Wait(Exception):  # noqa: N818 - control flow, not an error
    """Exception that reports that the bind must wait; its text is the reason."""


class HeldBinds:
    """Component that holds binds.

    Args:
        parts: the components that the group controller also uses.
        seconds: the maximum time for which a bind is held.
        sizes_are_read: a function that returns whether the PodGroups have been read.
        is_unsettled: a function that returns whether the outcome of a pod's Binding is unknown.
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        parts: GroupParts,
        seconds: float,
        *,
        sizes_are_read: Callable[[], bool],
        is_unsettled: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts, self._seconds, self._clock = parts, seconds, clock
        self._sizes_are_read, self._is_unsettled = sizes_are_read, is_unsettled
        self.uids: set[str] = set()
        self._held: Counter[str] = Counter()
        # The requests of pods whose binds are held, and for which no cards were reserved when their binds were first
        # held.
        self._requests: dict[str, tuple[str, PodRequest]] = {}

    async def admit(self, ref: PodRef, node: str) -> None:
        """Hold the bind of a pod until its group may be bound; return immediately for a pod without a group.

        Args:
            ref: the pod.
            node: the node that kube-scheduler chose.

        Raises:
            BindingError: the group does not fit, or not enough members were placed within the time limit.
        """
        if ref.uid not in self._parts.feed.pending:
            await self._read(ref)
        if self._parts.group_index.find(ref.uid) is None:
            return
        deadline = self._clock() + self._seconds
        self.uids.add(ref.uid)
        try:
            await self._wait(ref, node, deadline)
        finally:
            self.uids.discard(ref.uid)

    async def _wait(self, ref: PodRef, node: str, deadline: float) -> None:
        joined: Batch | None = None
        held = False
        try:
            while True:
                group = self._parts.group_index.find(ref.uid)
                changed = self._parts.changes.get(None if group is None else group.key)
                if joined is not None and joined.withdrawn:
                    raise BindingError(joined.withdrawn)
                try:
                    joined = self._join(ref, node)
                    if joined is not None:
                        self._check_others(ref, joined)
                except _Wait as exc:
                    left = deadline - self._clock()
                    if left <= 0:
                        raise BindingError(str(exc)) from exc
                    held = held or self._hold(ref, joined, exc)
                else:
                    return
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await changed.wait()
        finally:
            if held:
                self._held -= Counter([ref.namespace])
                self._requests.pop(ref.uid, None)

    def _hold(self, ref: PodRef, joined: Batch | None, why: _Wait) -> bool:
        """Count a bind while it is held.

        Raises:
            BindingError: too many binds are held, or the held pods would exceed the quota of their namespace.
        """
        # The held binds of a namespace must not exceed the number that remains for other namespaces, so that a few
        # namespaces cannot use the whole limit.
        share = min(MOST_HELD_OF_NAMESPACE, _MOST_HELD - self._held.total())
        if self._held[ref.namespace] >= share:
            raise BindingError(f"{why}; too many binds are held already. Add the scheduling gate to the pods of groups")
        if joined is None:
            self._check_quota(ref)
        self._held[ref.namespace] += 1
        return True

    def _check_quota(self, ref: PodRef) -> None:
        """Check that the requests of the namespace's held binds and of this bind do not exceed the quota.

        kube-scheduler counts a pod on its node while the bind is held, although the ledger does not. Otherwise, a
        tenant could create many groups that are never complete. Their pods would block nodes for other tenants.

        Raises:
            BindingError: the requests would exceed the quota of the namespace.
        """
        group, pending = self._parts.group_index.find(ref.uid), self._parts.feed.pending.get(ref.uid)
        if group is None or pending is None or pending.request is None:
            return
        has_cards = self._parts.batches.has_cards
        beside = [
            each
            for uid, (namespace, each) in self._requests.items()
            if namespace == ref.namespace and not has_cards(uid)
        ]
        beyond = self._parts.ledger.judge_quota(ref.namespace, pending.request, beside=beside)
        if beyond is not None:
            raise BindingError(f"pod group {group.key}: {pending.pod.dialect.format_misfit(beyond)}")
        self._requests[ref.uid] = ref.namespace, pending.request

    def _join(self, ref: PodRef, node: str) -> Batch | None:
        """Return the batch for which a bind has to wait; None if the bind may continue."""
        group = self._find_waiting(ref)
        if group is None:
            return None
        size = self._read_size(group)
        if not self._parts.batches.has_cards(ref.uid):
            if len(group.done) >= size:
                return None
            self._reserve(group, size, ref, node)
        batch = self._parts.batches.find(group.key)
        if batch is None or ref.uid not in batch.members:
            return None
        self._move(ref, node, batch)
        return None if batch.gated or batch.opened else batch

    def _find_waiting(self, ref: PodRef) -> Group | None:
        group = self._parts.group_index.find(ref.uid)
        return group if group is not None and ref.uid in group.waiting else None

    def _read_size(self, group: Group) -> int:
        if not self._sizes_are_read():
            raise _Wait("the PodGroups have not been read yet")
        try:
            return self._parts.group_index.read_size(group)
        except GroupSizeError as exc:
            raise _Wait(str(exc)) from exc

    def _reserve(self, group: Group, size: int, ref: PodRef, node: str) -> None:
        if reason := describe_missing(group, self._parts.batches.judge(group), size):
            raise _Wait(reason)
        batches, now = self._parts.batches, self._clock()
        if reason := batches.describe_pause(group.key, now) or batches.reserve(
            group, size, now, uid=ref.uid, node=node
        ):
            raise BindingError(reason)
        self._parts.changes.note(group.key)

    def _move(self, ref: PodRef, node: str, batch: Batch) -> None:
        """Move a reservation to the node that kube-scheduler chose, which often differs from the reserved node.

        Raises:
            BindingError: the node has no room, or a Binding to the other node may still take effect.
        """
        held, pending = self._parts.ledger.find_holding(ref.uid), self._parts.feed.pending.get(ref.uid)
        if held is None or held.node == node or pending is None or pending.request is None:
            return
        if self._is_unsettled(ref.uid) or not self._parts.reserver.move(ref, pending.request, node):
            # kube-scheduler no longer places the pod on the node of its reservation.
            batch.arrived.discard(ref.uid)
            raise BindingError(f"the cards of pod {ref} are reserved, together with its group, on node {held.node}")

    def _check_others(self, ref: PodRef, batch: Batch) -> None:
        group = self._find_waiting(ref)
        if group is None:
            return
        size = self._read_size(group)
        if size > MOST_HELD_OF_NAMESPACE:
            # The limit does not allow holding the binds of the whole group, and all pods already have cards.
            self._parts.batches.open(batch)
            return
        batch.arrived.add(ref.uid)
        state = self._parts.batches.judge(group)
        placed = state.settled - state.held + len(batch.arrived)
        if placed < size:
            raise _Wait(
                f"pod group {group.key}: kube-scheduler has placed {placed} of {size} pods within {self._seconds:g} s"
            )
        self._parts.batches.open(batch)
        self._parts.changes.note(group.key)

    async def _read(self, ref: PodRef) -> None:
        """Read and apply a pod that the watch has not reported, because it may belong to a group."""
        try:
            pod = await read_pod_as(self._parts.api, ref, _pod)
        except ApiError as exc:
            raise BindingError(f"cannot find the group of pod {ref}: {exc}") from exc
        if self._parts.feed.take_pod(pod):
            self._parts.group_index.take_event("ADDED", pod)
