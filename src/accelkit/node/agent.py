"""Runs `accelkit node-agent`: finds the node's cards, publishes them, and serves them to the kubelet."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.events import Events
from accelkit.logs import ErrorReporter
from accelkit.node.advertising import Advertising
from accelkit.node.card_states import CardStates
from accelkit.node.device_plugin.container_response import list_card_nodes
from accelkit.node.device_plugin.enforcement import MPS_PIPE_DIRECTORY, find_enforcement
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.devices import count_by_card
from accelkit.node.discovery import FoundCard, compute_topology, survey
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.health import HealthMonitor
from accelkit.node.health.xids import XidWatch
from accelkit.node.kubelet import KUBELET_SOCKET, list_pod_resources
from accelkit.node.labels import NodeLabels
from accelkit.node.metrics import Metrics
from accelkit.node.own_node import OwnNode
from accelkit.node.pods import NodePods
from accelkit.node.processes.monitor import ProcessMonitor
from accelkit.node.reconciliation.observed_config_map import AllocationsWriter, build_allocations
from accelkit.node.reconciliation.reconciler import Reconciler, group_devices_by_pod
from accelkit.vendors.dialects import Dialect, load_dialect
from accelkit.vendors.profiles import load_profiles

log = logging.getLogger(__name__)

COMPONENT = "accelkit-node-agent"

# Two looks make a card unhealthy; its pods should not have to wait much longer than that to be told.
_LOOK_SECONDS = 10.0
# A node may wait for its pods for days.
_UNIT_SECONDS = 5.0
_SOCKETS_SECONDS = 1.0
# The kubelet tells nobody when devices change hands: asked after each allocation and each change of a pod, and now and
# then for what neither shows.
_RECONCILE_SECONDS = 15.0
_UNSETTLED_SECONDS = 1.0
_GATHER_SECONDS = 0.2


@dataclass(frozen=True)
class AgentOptions:
    """Options of `accelkit node-agent`; `steering` is whether the kubelet is told which devices to choose."""

    node: str
    root: Path
    unit_bytes: int
    dialect: str
    kubeconfig: Path | None = None
    namespace: str | None = None
    steering: bool = True
    metrics_port: int = 0
    mps_folder: str = MPS_PIPE_DIRECTORY


async def run(options: AgentOptions) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or the port of metrics is taken.
        DevicePluginError: the cards are more than the kubelet takes.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    metrics = Metrics()
    metrics.serve(options.metrics_port)
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        dialect = load_dialect(options.dialect)
        wake = asyncio.Event()
        pods = NodePods(api, options.node, dialect, on_change=wake.set)
        plugins = _make_plugins(options, dialect, pods, metrics, wake)
        node = OwnNode(api, options.node)
        advertising = Advertising(
            node,
            options.root,
            told_unit_bytes=options.unit_bytes,
            resource=dialect.resources.memory,
            pods=pods,
            plugins=plugins,
        )
        events = Events(api, COMPONENT, options.node)
        reconciler = Reconciler(
            api,
            pods=pods,
            dialect=dialect,
            cards=advertising.list_node_cards,
            events=events,
            metrics=metrics,
        )
        xids = XidWatch(load_nvml)
        states = CardStates(
            HealthMonitor(options.root, environ=os.environ, nodes=list_card_nodes, reported=xids.take),
            partial(find_enforcement, options.root, pipe_directory=options.mps_folder),
        )
        found_any = asyncio.Event()
        loops = (
            pods.reflector.run(),
            _watch_cards(
                options,
                dialect=dialect,
                pods=pods,
                node=node,
                states=states,
                advertising=advertising,
                labels=NodeLabels(api, options.node, options.namespace, options.root),
                found_any=found_any,
            ),
            _keep_registered(options.root, plugins, found_any),
            _compare_with_kubelet(
                options,
                dialect=dialect,
                reconciler=reconciler,
                monitor=ProcessMonitor(options.root, pods=pods, events=events, metrics=metrics),
                cards=advertising.list_found_cards,
                writer=AllocationsWriter(api, options.namespace, options.node),
                wake=wake,
            ),
        )
        xids.start()
        try:
            await run_until(stop, loops)
        finally:
            await asyncio.to_thread(xids.stop)
            for plugin in plugins:
                await plugin.stop()
    log.info("node agent ended")


async def run_until(stop: asyncio.Event, loops: Iterable[Coroutine[object, object, None]]) -> None:
    """Run the loops until `stop` is set; the first error of one ends them all and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop) for loop in loops]
            await stop.wait()
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failures:
        # The command line explains one error; the others are its consequences, or are found next time.
        raise failures.exceptions[0] from failures


def _make_plugins(
    options: AgentOptions, dialect: Dialect, pods: NodePods, metrics: Metrics, wake: asyncio.Event
) -> Sequence[DevicePlugin]:
    memory, cards = dialect.resources.memory, dialect.resources.cards
    allocations = {
        memory: PreferredAllocation(whole=False, unit_bytes=options.unit_bytes),
        cards: PreferredAllocation(whole=True),
    }
    return [
        DevicePlugin(
            options.root,
            resource=resource,
            whole=resource == cards,
            pods=pods,
            allocations=allocations[resource],
            other=(other, allocations[other]),
            steering=options.steering,
            on_allocate=wake.set,
            count=metrics.build_allocation_counter(resource),
            environment=dialect.environment,
            mps_folder=options.mps_folder,
        )
        for resource, other in ((memory, cards), (cards, memory))
    ]


async def _compare_with_kubelet(
    options: AgentOptions,
    *,
    dialect: Dialect,
    reconciler: Reconciler,
    monitor: ProcessMonitor,
    cards: Callable[[], Sequence[FoundCard]],
    writer: AllocationsWriter,
    wake: asyncio.Event,
) -> None:
    """Ask the kubelet what containers hold, correct the assignments, and write what it shows for audits."""
    errors = ErrorReporter(log)
    while True:
        settled = False
        try:
            held = group_devices_by_pod(await list_pod_resources(options.root), dialect)
        except DevicePluginError as exc:
            # Not answered is not empty: nothing is corrected.
            errors.report(str(exc), f"{exc}; assignments are not compared")
        else:
            errors.clear()
            settled = await reconciler.reconcile(held)
            await monitor.observe(cards())
            await writer.write(build_allocations(options.node, held, monitor.strange_processes, monitor.enforced))
        try:
            async with asyncio.timeout(_RECONCILE_SECONDS if settled else _UNSETTLED_SECONDS):
                await wake.wait()
        except TimeoutError:
            continue
        # Pods come in groups; one look does for all of them.
        await asyncio.sleep(_GATHER_SECONDS)
        wake.clear()


async def _watch_cards(
    options: AgentOptions,
    *,
    dialect: Dialect,
    pods: NodePods,
    node: OwnNode,
    states: CardStates,
    advertising: Advertising,
    labels: NodeLabels,
    found_any: asyncio.Event,
) -> None:
    """Look at the cards again and again; tell the kubelet and the cluster when they, or their unit, change."""
    # Which unit can be advertised depends on the pods. The reflector tries until the API server answers, and says so.
    await pods.reflector.synced.wait()
    in_use = frozenset[str]()
    while True:
        settled = True
        try:
            found = await asyncio.to_thread(survey, options.root, load_profiles().values())
        except DevicePluginError as exc:
            # Not readable is not absent: what was shown before stays.
            log.warning("%s", exc)
        else:
            in_use = await _list_in_use(options.root, dialect, in_use)
            if await node.read():
                if not advertising.shown and node.inventory is not None:
                    states.remember(node.inventory.cards, load_profiles(), set(count_by_card(in_use)))
                cards = await asyncio.to_thread(states.update, found, node.cordon)
                topology = await asyncio.to_thread(compute_topology, options.root, cards)
                settled = await advertising.update(cards, topology=topology, in_use=in_use)
                await labels.update([each.card for each in cards])
            if advertising.shown:
                found_any.set()
        await asyncio.sleep(_LOOK_SECONDS if settled else _UNIT_SECONDS)


async def _list_in_use(root: Path, dialect: Dialect, before: frozenset[str]) -> frozenset[str]:
    try:
        held = group_devices_by_pod(await list_pod_resources(root), dialect)
    except DevicePluginError:
        # A kubelet that does not answer has taken nothing back.
        return before
    devices = (each for containers in held.values() for each in containers.values())
    return frozenset(device_id for each in devices for device_id in (*each.memory, *each.whole))


async def _keep_registered(root: Path, plugins: Sequence[DevicePlugin], found_any: asyncio.Event) -> None:
    """Serve and register, again whenever the kubelet has restarted or our sockets are gone."""
    # Not before the cards are known: an empty list would tell the kubelet that there are none.
    await found_any.wait()
    registered: tuple[int, int] | None = None
    while True:
        kubelet = _read_identity(root / KUBELET_SOCKET)
        whole = all(plugin.socket.exists() for plugin in plugins)
        if kubelet is not None and (kubelet != registered or not whole):
            try:
                for plugin in plugins:
                    await plugin.start()
                registered = kubelet
            except DevicePluginError as exc:
                registered = None
                log.warning("%s", exc)
        await asyncio.sleep(_SOCKETS_SECONDS)


def _read_identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # A new kubelet makes a new socket; the inode alone may be the old one's, used again.
    return found.st_ino, found.st_ctime_ns
