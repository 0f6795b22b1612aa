"""Watches the processes on this node's cards: pods that take more than their share, and processes of no pod."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.kube.events import Events, ObjectReference
from accelkit.logs import ErrorReporter
from accelkit.model.observed_allocations import StrangeProcess
from accelkit.model.units import format_bytes
from accelkit.node.device_plugin.container_response import list_card_nodes
from accelkit.node.device_plugin.enforcement import limit_pod
from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.metrics import Metrics
from accelkit.node.pods import NodePod, NodePods
from accelkit.node.processes.nvml import read_used_memory
from accelkit.node.processes.scan import Processes, add_nvml, find_card_processes
from accelkit.node.processes.usage import OverUse, find_over_use, find_strange_processes
from accelkit.vendors.profiles import list_host_services

log = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0


class ProcessMonitor:
    """Looks at the processes on the cards now and then.

    Args:
        root: the host's root folder.
        pods: this node's pods.
        events: where over-use is told.
        metrics: where it is counted.
        clock: seconds, never backwards.
    """

    def __init__(
        self,
        root: Path,
        *,
        pods: NodePods,
        events: Events,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._pods = pods
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._looked_at: float | None = None
        self._told = set[tuple[str, str]]()
        self._errors = ErrorReporter(log, logging.INFO)
        self.strange_processes: tuple[StrangeProcess, ...] | None = None
        # What keeps each pod within its memory, by namespace and name; pods of which nothing does are left out.
        self.enforced: Mapping[tuple[str, str], str] = {}

    async def observe(self, found: Sequence[FoundCard]) -> None:
        """Look, where the last time was some time ago; tell of each pod and card once for as long as it goes on."""
        if not found or (self._looked_at is not None and self._clock() - self._looked_at < _LOOK_SECONDS):
            return
        self._looked_at = self._clock()
        self.enforced = await asyncio.to_thread(self._enforce, found)
        try:
            seen = await asyncio.to_thread(self._scan, found)
        except DevicePluginError as exc:
            self._report(str(exc))
            return
        pods = {each.cgroup_uid: each for each in self._pods.list_pods()}
        # Some that cannot be looked into may be anybody's, so none is called strange or harmless.
        if seen.unread:
            self._report(f"{seen.unread} processes cannot be looked into")
        else:
            self._errors.clear()
            self.strange_processes = tuple(
                find_strange_processes(seen.found, self._pods.list_uids(), list_host_services())
            )
        unreadable = [uid for uid, each in pods.items() if each.assigned is None]
        await self._tell(find_over_use(seen.found, _sum_granted(pods), unknown=unreadable), pods)

    def _enforce(self, found: Sequence[FoundCard]) -> Mapping[tuple[str, str], str]:
        """Hold pods to their memory where the kernel can, and return by what each is held."""
        cards = {each.card.id: each for each in found}
        enforced: dict[tuple[str, str], str] = {}
        for uid, each in {pod.cgroup_uid: pod for pod in self._pods.list_pods()}.items():
            granted = {card: amount for (_, card), amount in _sum_granted({uid: each}).items()}
            own = [cards[card] for card in granted if card in cards]
            if not own or len(own) != len(granted):
                continue
            name = each.pod.ref.namespace, each.pod.ref.name
            if all(card.card.enforcement == "mps" for card in own):
                enforced[name] = "mps"
            elif all(card.card.bdf and "dmem" in card.profile.enforcement for card in own) and limit_pod(
                self._root, uid, {card.card.bdf: granted[card.card.id] for card in own}
            ):
                enforced[name] = "dmem"
        return enforced

    def _scan(self, found: Sequence[FoundCard]) -> Processes:
        paths: dict[str, Sequence[str]] = {}
        for each in found:
            try:
                paths[each.card.id] = list_card_nodes(each)
            except DevicePluginError:
                # Its memory is found by its address all the same.
                continue
        bdfs = {each.card.bdf: each.card.id for each in found if each.card.bdf}
        seen = find_card_processes(self._root, paths, bdfs)
        nvml = load_nvml()
        return seen if nvml is None else add_nvml(seen, read_used_memory(nvml, bdfs))

    async def _tell(self, over: Sequence[OverUse], pods: Mapping[str, NodePod]) -> None:
        self._metrics.over_use.clear()
        for each in over:
            pod = pods.get(each.pod_uid)
            if pod is None:
                continue
            ref = pod.pod.ref
            self._metrics.over_use.labels(ref.namespace, ref.name, each.card).set(each.used_bytes - each.granted_bytes)
            if (each.pod_uid, each.card) not in self._told:
                least = "at least " if each.at_least else ""
                message = (
                    f"uses {least}{format_bytes(each.used_bytes)} of card {each.card}, "
                    f"of which it was given {format_bytes(each.granted_bytes)}"
                )
                log.warning("pod %s %s", ref, message)
                subject = ObjectReference("Pod", ref.name, ref.namespace, ref.uid)
                await self._events.record(subject, "MemoryOverUse", message, warning=True)
        self._told = {(each.pod_uid, each.card) for each in over}

    def _report(self, error: str) -> None:
        self.strange_processes = None
        self._errors.report(error, f"processes on the cards are not compared with pods: {error}")


def _sum_granted(pods: Mapping[str, NodePod]) -> dict[tuple[str, str], int]:
    granted: dict[tuple[str, str], int] = {}
    for uid, each in pods.items():
        for shares in each.assigned.assignment.containers.values() if each.assigned else ():
            for share in shares:
                granted[uid, share.card] = granted.get((uid, share.card), 0) + share.memory_bytes
    return granted
