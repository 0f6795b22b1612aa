"""Process monitor for this node's cards. It detects overuse by pods, and processes without a pod."""

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

_INTERVAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _ScanResult:
    """The processes on cards, and the IDs of the cards that could not be scanned."""

    processes: Processes
    unscanned: tuple[str, ...]


class ProcessMonitor:
    """Monitor that periodically compares the processes on the cards with the shares of the pods.

    Args:
        root: the host's root folder.
        pods: this node's pods.
        events: the event recorder for overuse.
        metrics: the metrics of the agent.
        scan: the exchange with the container that scans the processes.
        clock: a monotonic clock in seconds.
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
        self._scanned_at: float | None = None
        self._warned = set[tuple[str, str]]()
        self._errors = ErrorReporter(log, logging.INFO)
        self._bounded = OnceReporter(log)
        self.strange_processes: tuple[StrangeProcess, ...] | None = None

    async def observe(self, found: Sequence[FoundCard]) -> None:
        """Compare processes and shares if a comparison is due.

        While overuse continues, warn only once per pod and card.
        """
        if not found or (self._scanned_at is not None and self._clock() - self._scanned_at < _INTERVAL_SECONDS):
            return
        self._scanned_at = self._clock()
        try:
            result = await asyncio.to_thread(self._scan, found)
        except DevicePluginError as exc:
            self._report(str(exc))
            return
        pods = {each.cgroup_uid: each for each in self._pods.list_pods()}
        # If a process cannot be read, its owner is unknown, so no processes are reported as strange or harmless.
        if result.unscanned:
            self._report(f"cannot scan the processes on these cards: {', '.join(result.unscanned)}")
        elif result.processes.unread:
            self._report(f"{result.processes.unread} processes cannot be read")
        elif unknown := sorted(set(result.processes.bounded) - self._pods.list_uids()):
            self._report(f"unknown pods {', '.join(unknown)} have too many open files")
        else:
            self._errors.clear()
            self.strange_processes = tuple(
                find_strange_processes(result.processes.found, self._pods.list_uids(), list_host_services())
            )
        self._warn_of_bounded(result.processes.bounded, pods)
        unreadable = [uid for uid, each in pods.items() if each.assigned is None]
        over = find_over_use(result.processes.found, _sum_granted(pods), unknown=unreadable)
        await self._warn_of_over_use(over, result, pods)

    def _scan(self, found: Sequence[FoundCard]) -> _ScanResult:
        nodes: dict[str, Sequence[str]] = {}
        for each in found:
            try:
                nodes[each.card.id] = list_own_nodes(each)
            except DevicePluginError:
                # NVIDIA's library can still report the card's memory by its PCI address.
                continue
        bdfs = find_cards_by_address(found)
        scan = self._read_passed(Cards(nodes, bdfs))
        nvml = load_nvml(self._root)
        used = UsedMemory({}, frozenset()) if nvml is None else read_used_memory(nvml, bdfs)
        # This call raises an error if the host's processes are not visible in this container.
        list_pids(self._root)
        processes = add_nvml(self._root, scan or Processes((), 0), used.amounts)
        unscanned = () if scan else tuple(each.card.id for each in found if each.card.id not in used.cards)
        return _ScanResult(processes, unscanned)

    def _read_passed(self, cards: Cards) -> Processes | None:
        try:
            self._passed.request(cards)
        except OSError as exc:
            raise DevicePluginError(f"cannot request the scan of processes: {exc}") from exc
        scan = self._passed.read()
        return scan.processes if scan else None

    def _warn_of_bounded(self, bounded: Sequence[str], pods: Mapping[str, NodePod]) -> None:
        for uid in bounded:
            name = str(pods[uid].pod.ref) if uid in pods else f"with UID {uid}"
            message = f"pod {name} has more open files than the scan reads, so its used memory may be incomplete"
            self._bounded.report(uid, message)

    async def _warn_of_over_use(
        self, over: Sequence[OverUse], result: _ScanResult, pods: Mapping[str, NodePod]
    ) -> None:
        self._metrics.over_use.clear()
        for each in over:
            pod = pods.get(each.pod_uid)
            if pod is None:
                continue
            ref = pod.pod.ref
            self._metrics.over_use.labels(ref.namespace, ref.name, each.card).set(each.used_bytes - each.granted_bytes)
            if (each.pod_uid, each.card) not in self._warned:
                least = "at least " if each.at_least else ""
                message = (
                    f"uses {least}{format_bytes(each.used_bytes)} of card {each.card}, "
                    f"but its share is {format_bytes(each.granted_bytes)}"
                )
                log.warning("pod %s %s", ref, message)
                subject = ObjectReference("Pod", ref.name, ref.namespace, ref.uid)
                await self._events.record(subject, "MemoryOverUse", message, warning=True)
        # Do not warn again when a process reappears after its card was not scanned.
        kept = {(uid, card) for uid, card in self._warned if card in result.unscanned and uid in pods}
        self._warned = kept | {(each.pod_uid, each.card) for each in over}

    def _report(self, error: str) -> None:
        self.strange_processes = None
        self._errors.report(error, f"cannot compare processes on the cards with pods: {error}")


def _sum_granted(pods: Mapping[str, NodePod]) -> dict[tuple[str, str], int]:
    return {(uid, card): amount for uid, each in pods.items() for card, amount in sum_granted(each).items()}
