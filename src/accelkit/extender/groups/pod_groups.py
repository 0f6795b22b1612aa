"""Support for pod groups in the extender: the watches, and the setup of the components for groups."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from accelkit.extender.groups.batches import Batches
from accelkit.extender.groups.binds import HeldBinds
from accelkit.extender.groups.controller import GroupController
from accelkit.extender.groups.gates import GateLifter
from accelkit.extender.groups.group_events import GroupEvents
from accelkit.extender.groups.group_index import GroupIndex
from accelkit.extender.groups.membership import trim_member
from accelkit.extender.groups.parts import GroupChanges, GroupParts
from accelkit.extender.groups.reserving import GroupReserver
from accelkit.extender.groups.sizes import GroupSizes
from accelkit.kube.client import ApiClient
from accelkit.kube.events import Events
from accelkit.kube.paths import NODES, PODS
from accelkit.kube.reflector import Reflector
from accelkit.kube.scheduling.allowed_nodes import SchedulingFacts
from accelkit.kube.views.scheduling import SchedulingNode, SchedulingPod
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import Node, Pod, PodRef
from accelkit.placement.policies import AnyPolicy

# By default, kube-scheduler retries a pod after at most 10 s. The rest is a margin for a busy cluster.
_RETRY_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """Time limits of groups, in seconds.

    Attributes:
        reservation: the time from the reservation to the last bind.
        hold: the time for which the bind of one pod without gates is held.
    """

    reservation: float = 60.0
    hold: float = 5.0

    @property
    def gather(self) -> float:
        """The time after the reservation within which kube-scheduler must place enough members without gates.

        After this time, the reservation continues so that kube-scheduler can retry members whose held binds timed out.
        If the reservation is too short for retries, the result is the time for which one bind is held.
        """
        return max(min(self.hold, self.reservation), min(self.hold + _RETRY_SECONDS, self.reservation - _RETRY_SECONDS))


class PodGroups:
    """Interface between the extender and its pod groups.

    Args:
        api: an open client.
        ledger: the ledger with the reservations.
        feed: the feed that updates the ledger.
        policy: the policy that ranks cards and nodes if the pod does not name one.
        events: the event recorder.
        times: the time limits of groups.
        decides: a function that returns whether this replica is the leader with current data.
        is_under_way: a function that returns whether a pod is being bound.
        is_unsettled: a function that returns whether the outcome of a pod's Binding is unknown.
        clock: a function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        api: ApiClient,
        ledger: Ledger,
        feed: LedgerFeed,
        policy: AnyPolicy,
        *,
        events: Events,
        times: GroupTimes,
        decides: Callable[[], bool],
        is_under_way: Callable[[str], bool],
        is_unsettled: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._feed = api, feed
        self._facts, self._group_index, self._changes = SchedulingFacts(), GroupIndex(), GroupChanges()
        self._is_under_way, self._is_unsettled = is_under_way, is_unsettled
        reserver = GroupReserver(ledger, feed.mix, policy, self._facts.list_allowed)
        batches = Batches(
            ledger,
            feed,
            reserver,
            seconds=times.reservation,
            gather_seconds=times.gather,
            is_busy=self._is_busy,
        )
        parts = GroupParts(api, ledger, feed, self._group_index, reserver, batches, self._changes)
        self._batches, self._sizes = batches, GroupSizes(api, self._group_index, self._changes.note)
        self._group_events = GroupEvents(events)
        self._controller = GroupController(
            parts,
            GateLifter(api, batches.find_node, clock),
            self._group_events,
            leads=lambda: self._sizes.are_read and decides(),
            clock=clock,
        )
        self._binds = HeldBinds(
            parts, times.hold, sizes_are_read=lambda: self._sizes.are_read, is_unsettled=is_unsettled, clock=clock
        )

    def watch_nodes(
        self, on_replace: Callable[[list[Node]], None], on_event: Callable[[str, Node], None]
    ) -> Reflector[SchedulingNode]:
        """Return the watch for all nodes, which also updates the feed.

        Args:
            on_replace: a function that is called with each list of nodes.
            on_event: a function that is called with each change.
        """

        def replace(nodes: list[SchedulingNode]) -> None:
            self._feed.replace_nodes(list(nodes))
            self._facts.replace(nodes)
            on_replace(list(nodes))

        def take(kind: str, node: SchedulingNode) -> None:
            self.take_node_event(kind, node)
            on_event(kind, node)

        return Reflector(self._api, NODES, SchedulingNode, on_replace=replace, on_event=take)

    def watch_pods(
        self, on_replace: Callable[[list[Pod]], None], on_event: Callable[[str, Pod], None]
    ) -> Reflector[SchedulingPod]:
        """Return the watch for all pods.

        Args:
            on_replace: a function that is called with each list after the update of the groups.
            on_event: a function that is called with each change before the update of the groups.
        """

        def replace(pods: list[SchedulingPod]) -> None:
            version = reflector.version
            self._group_index.replace(pods, lambda uid: self._feed.is_newer(uid, version))
            self._controller.note_pods()
            on_replace(list(pods))
            self._changes.note()

        def take(kind: str, pod: SchedulingPod) -> None:
            on_event(kind, pod)
            self.take_pod_event(kind, pod)

        reflector = Reflector(
            self._api,
            PODS,
            SchedulingPod,
            trim=self._trim,
            on_replace=replace,
            on_event=take,
            on_unreadable=self._feed.take_unreadable_pod,
        )
        return reflector

    def take_node_event(self, kind: str, node: SchedulingNode) -> None:
        """Apply a single node change to the groups and the feed."""
        self._feed.take_node_event(kind, node)
        self._facts.take_event(kind, node)

    def take_pod_event(self, kind: str, pod: SchedulingPod) -> None:
        """Apply a single pod change to the groups, after the feed has applied it."""
        uid = pod.metadata.uid
        former = self._group_index.find(uid)
        if (key := self._group_index.take_event(kind, pod)) is not None:
            self._controller.note_pod(uid, *({key} if former is None else {key, former.key}))

    async def admit(self, ref: PodRef, node: str) -> None:
        """Hold the bind of a pod until its group may be bound; return immediately for a pod without a group.

        Raises:
            BindingError: the group does not fit, or not enough members were placed within the time limit.
        """
        await self._binds.admit(ref, node)

    def holds(self, uid: str) -> bool:
        """Return whether a pod's cards are reserved for its group without a Binding."""
        return self._batches.find_of(uid) is not None

    def is_member(self, uid: str) -> bool:
        """Return whether a pod belongs to a group."""
        return self._group_index.find(uid) is not None

    def describe(self, uid: str) -> str:
        """Return the reason why the group of a pod waits; empty if it does not wait."""
        group = self._group_index.find(uid)
        if group is None or uid not in group.waiting:
            return ""
        return self._group_events.find_reason(group.key) or f"pod group {group.key}: its pods are being bound"

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sizes.run())
            tasks.create_task(self._controller.run())

    def _trim(self, pod: SchedulingPod) -> None:
        kept = trim_member(pod)
        self._feed.trim_pod(pod)
        if kept is not None:
            labels, annotations = kept
            pod.metadata.labels = {**(pod.metadata.labels or {}), **labels}
            pod.metadata.annotations = {**(pod.metadata.annotations or {}), **annotations}

    def _is_busy(self, uid: str) -> bool:
        # The Binding has not been sent while the bind is held.
        return self._is_unsettled(uid) or (self._is_under_way(uid) and uid not in self._binds.uids)
