"""Watches the processes on this node's cards: pods that take more than their share, and processes of no pod."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.kube.events import Events, ObjectReference
from accelkit.logs import ErrorReporter
from accelkit.model.observed_allocations import StrangeProcess
from accelkit.model.units import format_bytes
from accelkit.node.device_plugin.container_response import find_cards_by_address, list_own_nodes
from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.enforcement.enforcer import sum_granted
from accelkit.node.metrics import Metrics
from accelkit.node.pods import NodePod, NodePods
from accelkit.node.processes.nvml import UsedMemory, read_used_memory
from accelkit.node.processes.passed_on import Cards, PassedScan
from accelkit.node.processes.scan import Processes, add_nvml, list_pids
from accelkit.node.processes.usage import OverUse, find_over_use, find_strange_processes
from accelkit.reporting import OnceReporter
from accelkit.vendors.profiles import list_host_services

log = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """Processes on cards, and the cards of which they may not be all."""

    processes: Processes
    unseen: tuple[str, ...]


class ProcessMonitor:
    """Looks at the processes on the cards now and then.

    Args:
        root: the host's root folder.
        pods: this node's pods.
        events: where over-use is told.
        metrics: where it is counted.
        scan: who has cards open.
        clock: seconds, never backwards.
    """

    def __init__(
        self,
        root: Path,
        *,
        pods: NodePods,
        events: Events,
        metrics: Metrics,
        scan: PassedScan,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._pods = pods
        self._events = events
        self._metrics = metrics
        self._passed = scan
        self._clock = clock
        self._looked_at: float | None = None
        self._told = set[tuple[str, str]]()
        self._errors = ErrorReporter(log, logging.INFO)
        self._bounded = OnceReporter(log)
        self.strange_processes: tuple[StrangeProcess, ...] | None = None

    async def observe(self, found: Sequence[FoundCard]) -> None:
        """Look, where the last time was some time ago; tell of each pod and card once for as long as it goes on."""
        if not found or (self._looked_at is not None and self._clock() - self._looked_at < _LOOK_SECONDS):
            return
        self._looked_at = self._clock()
        try:
            seen = await asyncio.to_thread(self._scan, found)
        except DevicePluginError as exc:
            self._report(str(exc))
            return
        pods = {each.cgroup_uid: each for each in self._pods.list_pods()}
        # Some that cannot be looked into may be anybody's, so none is called strange or harmless.
        if seen.unseen:
            self._report(f"nobody looks who has these cards open: {', '.join(seen.unseen)}")
        elif seen.processes.unread:
            self._report(f"{seen.processes.unread} processes cannot be looked into")
        elif unknown := sorted(set(seen.processes.bounded) - self._pods.list_uids()):
            self._report(f"{', '.join(unknown)}, no pods of this node, have too many files open")
        else:
            self._errors.clear()
            self.strange_processes = tuple(
                find_strange_processes(seen.processes.found, self._pods.list_uids(), list_host_services())
            )
        self._warn_of_bounded(seen.processes.bounded, pods)
        unreadable = [uid for uid, each in pods.items() if each.assigned is None]
        over = find_over_use(seen.processes.found, _sum_granted(pods), unknown=unreadable)
        await self._tell(over, seen, pods)

    def _scan(self, found: Sequence[FoundCard]) -> _Seen:
        nodes: dict[str, Sequence[str]] = {}
        for each in found:
            try:
                nodes[each.card.id] = list_own_nodes(each)
            except DevicePluginError:
                # Its memory is found by its address all the same.
                continue
        bdfs = find_cards_by_address(found)
        scan = self._read_passed(Cards(nodes, bdfs))
        nvml = load_nvml(self._root)
        used = UsedMemory({}, frozenset()) if nvml is None else read_used_memory(nvml, bdfs)
        # Nobody's processes are seen where the host's are not.
        list_pids(self._root)
        processes = add_nvml(self._root, scan or Processes((), 0), used.amounts)
        return _Seen(processes, () if scan else tuple(each.card.id for each in found if each.card.id not in used.cards))

    def _read_passed(self, cards: Cards) -> Processes | None:
        try:
            self._passed.ask(cards)
        except OSError as exc:
            raise DevicePluginError(f"the scan of processes cannot be asked: {exc}") from exc
        scan = self._passed.read()
        return scan.processes if scan else None

    def _warn_of_bounded(self, bounded: Sequence[str], pods: Mapping[str, NodePod]) -> None:
        for uid in bounded:
            name = str(pods[uid].pod.ref) if uid in pods else f"with UID {uid}"
            message = f"pod {name} has more files open than are read: memory that it uses may be missing"
            self._bounded.report(uid, message)

    async def _tell(self, over: Sequence[OverUse], seen: _Seen, pods: Mapping[str, NodePod]) -> None:
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
        # Who is not seen is not told of anew when he is seen again.
        unseen = {(uid, card) for uid, card in self._told if card in seen.unseen and uid in pods}
        self._told = unseen | {(each.pod_uid, each.card) for each in over}

    def _report(self, error: str) -> None:
        self.strange_processes = None
        self._errors.report(error, f"processes on the cards are not compared with pods: {error}")


def _sum_granted(pods: Mapping[str, NodePod]) -> dict[tuple[str, str], int]:
    return {(uid, card): amount for uid, each in pods.items() for card, amount in sum_granted(each).items()}
