"""Main loop of `accelkit cache-agent`, which connects watches, plans, work and reports."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from accelkit.cacheagent.disk.content import RECHECK_SECONDS, ContentChecks
from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.cacheagent.planning.observed import OwnNode
from accelkit.cacheagent.planning.plan import AgentPlan, Move, make_plan
from accelkit.cacheagent.planning.progress import NextStep
from accelkit.cacheagent.planning.world import Disk, World
from accelkit.cacheagent.policy_index import PolicyIndex
from accelkit.cacheagent.preparation import Preparation
from accelkit.cacheagent.probe_port import ProbePort
from accelkit.cacheagent.pull_secrets import read_logins
from accelkit.cacheagent.reporting.effect import MissedFiles, assign_missed
from accelkit.cacheagent.reporting.report import build_reports
from accelkit.cacheagent.reporting.report_writer import ReportWriter
from accelkit.cacheagent.scanning.document import read_missed
from accelkit.cacheagent.watches import Watches
from accelkit.cacheagent.workers import Workers
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.kernelcache.extraction.reader_thread import run_to_completion
from accelkit.kernelcache.registry import RegistrySettings
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.side_by_side import run_until
from accelkit.logs import ErrorReporter, Facts

log = logging.getLogger(__name__)

# One plan covers all changes within this time. After a long plan, the agent pauses for the duration of the plan.
_GATHER_SECONDS: Final = 0.02
_MOST_REST_SECONDS: Final = 0.5
# Maximum interval between plans. Changes to the disk and to scan results do not trigger an event.
_POLL_SECONDS: Final = 15.0
_REFRESH_SECONDS: Final = 120.0
_STALLED_SECONDS: Final = 300.0


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """Options of `accelkit cache-agent`.

    Attributes:
        node: name of the agent's node.
        folder: folder of the store.
        registries: registry connection settings, with the agent's own credentials.
        kubeconfig: path of the kubeconfig; None for the service account of the pod or the environment.
        namespace: namespace of the pull secrets for ClusterGKMCaches; empty to use no pull secrets.
        max_bytes: maximum total size of all caches; None if it is limited only by the disk.
        min_free_bytes: disk space that must remain free.
        min_free_percent: percentage of the disk that must remain free. The larger of `min_free_bytes` and this
            percentage applies.
        recheck_seconds: interval between content checks for caches without write protection, in seconds.
        trusted_root: path of Sigstore's trusted root (JSON); None for the trusted root in the installed release of
            sigstore.
        metrics_port: port for metrics and probes; 0 to disable the server.
        scan_folder: folder with the results of `accelkit cache-scan`; None if the scan is disabled.
    """

    node: str
    folder: Path
    registries: RegistrySettings
    kubeconfig: Path | None = None
    namespace: str = ""
    max_bytes: int | None = None
    min_free_bytes: int = 0
    min_free_percent: float = 0.0
    trusted_root: Path | None = None
    scan_folder: Path | None = None
    recheck_seconds: float = RECHECK_SECONDS
    metrics_port: int = 0


@dataclass
class _Memory:
    """State of the agent, except the watched objects and the store."""

    moving_since: Mapping[str, float] = field(default_factory=dict)
    policies_version: int = -1
    refreshed_at: float = 0.0
    # Start time of the last plan; None before the first plan.
    planned_at: float | None = None


async def run(options: AgentOptions) -> None:
    """Run the cache agent until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or the folder, the trusted root or the port cannot be used.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _end, stop, number)
    metrics, port = Metrics(), options.metrics_port
    store = Store(options.folder, max_bytes=options.max_bytes, min_free_bytes=options.min_free_bytes)
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        logins = read_logins(api, options.registries.credentials, options.namespace)
        async with Preparation(store.root, options.registries, logins) as preparation:
            agent = CacheAgent(api, options, store, preparation, metrics)
            # Open the port before the store, because opening the store may take a long time after a reboot or after the
            # agent was killed.
            async with ProbePort((lambda: metrics.open_port(port, agent.is_healthy)) if port else None):
                await store.open()
                try:
                    await run_until(stop, agent.list_loops())
                finally:
                    await agent.end_work()
    log.info("stopped the cache agent")


def _end(stop: asyncio.Event, number: signal.Signals) -> None:
    # Log the signal, because the exit code is always 0. The kubelet also sends a signal after failed probes.
    log.info("shutting down: signal=%s", number.name)
    stop.set()


class CacheAgent:
    """Cache agent of one node.

    Args:
        api: open client.
        options: options of the command.
        store: cache store, which must be open before the loops run.
        preparation: object that reads and extracts images, already opened as a context manager.
        metrics: metrics of the agent.
    """

    def __init__(
        self, api: ApiClient, options: AgentOptions, store: Store, preparation: Preparation, metrics: Metrics
    ) -> None:
        self._options, self._store, self._preparation, self._metrics = options, store, preparation, metrics
        self._wake = asyncio.Event()
        self._watches = Watches(api, options.node, self._wake.set)
        self._policy_index = PolicyIndex(store.root, options.trusted_root)
        self._writer = ReportWriter(api, options.node, self._watches.reports, metrics.status_failures.inc)
        self._memory = _Memory(refreshed_at=time.monotonic())
        self._workers = Workers(
            store, preparation, self._policy_index, metrics, node=self._find_node, on_end=self._wake.set
        )
        self._content_checks = ContentChecks(store, metrics, seconds=options.recheck_seconds, on_change=self._wake.set)
        self._disk_errors = ErrorReporter(log)

    def list_loops(self) -> list[Coroutine[object, object, None]]:
        """Return the coroutines that must run concurrently."""
        return [*self._watches.list_loops(), self._writer.run(), self._content_checks.run(), self._run()]

    def is_healthy(self) -> bool:
        """Return whether the agent has made a plan recently."""
        planned_at = self._memory.planned_at
        return planned_at is None or time.monotonic() - planned_at < _STALLED_SECONDS

    async def end_work(self) -> None:
        """Cancel all work in progress. Pods cannot read partial results."""
        await self._workers.end()

    async def _run(self) -> None:
        pause, rest = _POLL_SECONDS, _GATHER_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            await asyncio.sleep(rest)
            self._wake.clear()
            self._memory.planned_at = now = time.monotonic()
            pause = _POLL_SECONDS
            if not self._watches.synced or self._watches.node is None:
                continue
            try:
                if now - self._memory.refreshed_at > _REFRESH_SECONDS:
                    self._memory.refreshed_at = now
                    await self._store.refresh()
                disk = replace(self._store.measure_disk(), min_free_percent=self._options.min_free_percent)
                due = await self._run_pass(self._watches.node, disk, now)
            except OSError as exc:
                self._disk_errors.report(str(exc), f"cannot use the folder of kernel caches: {exc}")
                continue
            self._disk_errors.clear()
            rest = max(_GATHER_SECONDS, min(_MOST_REST_SECONDS, time.monotonic() - now))
            if due is not None:
                pause = max(0.0, min(_POLL_SECONDS, due - now))

    async def _run_pass(self, node: OwnNode, disk: Disk, now: float) -> float | None:
        world = self._observe(node, disk, now)
        plan = make_plan(world)
        self._memory.moving_since = plan.moving_since
        # Record which folders pods use before folders are deleted or links are moved, so that the records survive a
        # restart.
        written = self._store.remember_uses(plan.uses)
        # Move links first, because pods wait for them and the deletion of large folders takes time.
        moved = [move for move in plan.moves if written and self._move(move)]
        if written:
            # This runs in a thread, because the number of entries grows with the number of namespaces.
            await run_to_completion(partial(self._store.entries.bring, plan.entries))
        for folder in plan.collect:
            await self._collect(folder)
            # The agent is healthy even if deletions take a long time.
            self._memory.planned_at = time.monotonic()
        for work in plan.work:
            self._workers.begin(work)
        if moved:
            # The report must reflect the moved links.
            world = self._observe(node, disk, now)
        self._report(world, plan)
        return plan.next_at

    def _find_node(self) -> NodeHardware:
        node = self._watches.node
        return node.facts if node is not None else NodeHardware()

    def _observe(self, node: OwnNode, disk: Disk, now: float) -> World:
        watches, store, memory = self._watches, self._store, self._memory
        if memory.policies_version != watches.policies_version:
            self._policy_index.take(watches.policies)
            memory.policies_version = watches.policies_version
        desired_caches = dict(watches.desired_caches)
        self._workers.discard(desired_caches)
        pods = tuple(watches.pods.values())
        if store.ledger.lost:
            # It is unknown which folders these pods use, so each pod may use any folder.
            everything = {"": frozenset(store.stored)}
            store.ledger.uses = {pod.uid: dict(everything) for pod in pods}
            store.ledger.lost = False
            log.warning("lost the record of uses: no folder is deleted until all current pods have ended")
        return World(
            now=now,
            today=time.time(),
            node=node,
            desired_caches=desired_caches,
            unreadable=frozenset(watches.unreadable),
            image_policies=self._policy_index.find_image_policies(desired_caches.values()),
            disk=disk,
            pods=pods,
            stored=dict(store.stored),
            broken=store.broken,
            links=dict(store.links),
            entries=store.entries.present,
            uses=store.ledger.uses,
            moving_since=memory.moving_since,
            image_facts=self._workers.image_facts,
            attempts=self._workers.attempts,
            pauses=self._workers.pauses,
            busy=dict(self._workers.promised),
            slots=self._workers.slots,
            changed=self._content_checks.changed,
        )

    def _move(self, move: Move) -> bool:
        try:
            self._store.move_link(move.link, move.target)
        except OSError as exc:
            self._disk_errors.report(f"{move.link} {exc}", f"cannot move the link of {move.key}: {exc}")
            return False
        log.info(Facts("link moved", cache=move.key or "", link=move.link, to=move.target or ""))
        if move.late:
            log.warning(Facts("link moved while pods were starting", cache=move.key or "", pods=list(move.late)))
        self._wake.set()
        return True

    async def _collect(self, folder: str) -> None:
        try:
            collected = await self._store.collect(folder)
        except OSError as exc:
            # Continue with the deletion of other folders.
            self._disk_errors.report(f"{folder} {exc}", f"cannot delete {folder}: {exc}")
            return
        if collected:
            self._metrics.collected.inc()
            log.info(Facts("cache collected", folder=folder))
            self._wake.set()

    def _report(self, world: World, plan: AgentPlan) -> None:
        missed = self._read_missed(world, plan)
        reports = build_reports(world, plan, missed, node_name=self._options.node, root=str(self._store.root))
        self._writer.offer(reports, world.node.uid)
        self._metrics.stored_bytes.set(sum(each.size_bytes for each in world.stored.values()))
        self._metrics.free_bytes.set(world.disk.free_bytes)
        states = Counter(each.step for each in plan.progress.values())
        for step in NextStep:
            self._metrics.caches.labels(step.value).set(states[step])
        self._metrics.missed_files.clear()
        for key, by_pod in missed.items():
            namespace, _, name = key.partition("/")
            self._metrics.missed_files.labels(namespace, name).set(sum(each.files for each in by_pod.values()))

    def _read_missed(self, world: World, plan: AgentPlan) -> dict[str, dict[str, MissedFiles]]:
        if self._options.scan_folder is None:
            return {}
        return assign_missed(read_missed(self._options.scan_folder), world.desired_caches, plan.usage)
