"""Runs `accelkit node-agent`: finds the node's cards, publishes them, and serves them to the kubelet."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.events import Events
from accelkit.node.advertising import Advertising
from accelkit.node.card_metrics.show import show_cards
from accelkit.node.card_states import CardStates
from accelkit.node.device_plugin.container_response import list_card_nodes, list_cdi_kinds
from accelkit.node.device_plugin.former_resource import make_former_resources
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.device_plugin.registration import keep_registered
from accelkit.node.devices import DeviceIds
from accelkit.node.discovery import compute_network, compute_topology, place_beside, survey
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.enforcement.enforcer import Enforcer
from accelkit.node.enforcement.mps import DEFAULT_MPS, MpsFolders, find_enforcement
from accelkit.node.health import HealthChecks, HealthMonitor
from accelkit.node.health.card_errors import CardErrors
from accelkit.node.health.xids import XidWatch
from accelkit.node.host_files import wait_for_host_files
from accelkit.node.kubelet import list_held_devices, list_pod_resources
from accelkit.node.labels import NodeLabels
from accelkit.node.library_report import LibraryReport
from accelkit.node.managed_resources import ManagedResourcesWatch
from accelkit.node.metrics import Metrics
from accelkit.node.own_node import OwnNode
from accelkit.node.pods import NodePods
from accelkit.node.processes.monitor import ProcessMonitor
from accelkit.node.processes.passed_on import PassedScan
from accelkit.node.reconciliation.comparison import compare_with_kubelet
from accelkit.node.reconciliation.kubelet_checkpoint import KubeletCheckpoint
from accelkit.node.reconciliation.look import group_devices_by_pod
from accelkit.node.reconciliation.observed_config_map import AllocationsWriter
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.node.slots.plugin import DIALECT, make_slot_plugins
from accelkit.plugins.catalogue import describe_plugins
from accelkit.plugins.interface import DIALECTS, PROFILES
from accelkit.vendors.counted_dialects import list_device_resources
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.pod_reading import PodReader
from accelkit.vendors.profiles import load_usable_profiles

log = logging.getLogger(__name__)

COMPONENT = "accelkit-node-agent"

# Two looks make a card unhealthy; its pods should not have to wait much longer than that to be told.
_LOOK_SECONDS = 10.0
# A node may wait for its pods for days.
_UNIT_SECONDS = 5.0
# How long an agent that starts waits for the record of managed resources.
_RECORD_SECONDS = 10.0


@dataclass(frozen=True)
class AgentOptions:
    """Options of `accelkit node-agent`.

    Attributes:
        steering: whether the kubelet is told which devices to choose.
        health: what is asked for the health of cards; with less than all, nothing keeps NVIDIA's cards open.
        await_host_files: whether files of the host are copied below the root by another container.
        gas_slots: how many times each card can be given by GAS's resources; 0 where they are not served.
        cgroup_limits: whether pods are held to their memory by limits of their cgroups.
        memory_factor: how many times its memory the shares of a card may take together.
        managed_resources: name of the ConfigMap that lists the resources which may be offered; empty for all.
    """

    node: str
    root: Path
    unit_bytes: int
    dialect: str
    kubeconfig: Path | None = None
    namespace: str | None = None
    steering: bool = True
    health: HealthChecks = HealthChecks.ALL
    metrics_port: int = 0
    await_host_files: bool = False
    cgroup_limits: bool = False
    mps: MpsFolders = DEFAULT_MPS
    scan_folder: Path | None = None
    former_unit_bytes: int | None = None
    gas_slots: int = 0
    memory_factor: float = 1.0
    managed_resources: str = ""


async def run(options: AgentOptions) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or the port of metrics is taken.
        DevicePluginError: the cards are more than the kubelet takes.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    for name in describe_plugins({DIALECTS: [options.dialect], PROFILES: load_usable_profiles().profiles}):
        log.info("uses the %s", name)
    metrics = Metrics()
    metrics.serve(options.metrics_port, stop)
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        dialect = load_dialect(options.dialect)
        resources = list_device_resources(dialect)
        wake, look = asyncio.Event(), asyncio.Event()
        managed = None
        if options.managed_resources and options.namespace:
            managed = ManagedResourcesWatch(api, options.namespace, options.managed_resources, look.set)
        is_managed = managed.lists if managed else _is_always_managed
        pods = NodePods(api, options.node, dialect, on_change=wake.set)
        plugins = _make_plugins(options, dialect, pods=pods, metrics=metrics, wake=wake, is_managed=is_managed)
        slot_pods = NodePods(api, options.node, DIALECT, reader=PodReader([DIALECT]), on_change=wake.set)
        slots = make_slot_plugins(
            options.root,
            slot_pods,
            per_card=options.gas_slots,
            on_allocate=wake.set,
            build_counter=metrics.build_allocation_counter,
            is_managed=is_managed,
        )
        plugins = [*plugins, *slots, *make_former_resources(options.root, dialect, pods)]
        node = OwnNode(api, options.node)
        advertising = Advertising(
            node,
            options.root,
            told_unit_bytes=options.unit_bytes,
            resources=[each for each in resources.memory if each not in resources.doubtful],
            pods=pods,
            plugins=plugins,
            former_unit_bytes=options.former_unit_bytes,
        )
        card_watch = show_cards(
            metrics.registry,
            options.node,
            cards=advertising.list_found_cards,
            pods=[pods, slot_pods] if slots else [pods],
            load_nvml=partial(load_nvml, options.root),
            last_xids=metrics.last_xids,
        )
        events = Events(api, COMPONENT, options.node)
        reconciler = Reconciler(
            api,
            pods=pods,
            cards=advertising.list_node_cards,
            events=events,
            metrics=metrics,
        )
        scan = PassedScan(options.scan_folder)
        xids = XidWatch(partial(load_nvml, options.root))
        monitor = HealthMonitor(options.root, nodes=list_card_nodes, checks=options.health, reported=xids.take)
        states = CardStates(
            monitor,
            partial(find_enforcement, options.root, folders=options.mps, list_daemons=scan.list_mps_daemons),
        )
        found_any = asyncio.Event()
        loops = (
            pods.reflector.run(),
            *([slot_pods.reflector.run()] if slots else []),
            *([managed.reflector.run()] if managed else []),
            *([card_watch.run(advertising.list_found_cards)] if options.metrics_port else []),
            _watch_cards(
                options,
                dialect=dialect,
                pods=pods,
                node=node,
                states=states,
                errors=CardErrors(node, monitor=monitor, events=events, metrics=metrics),
                advertising=advertising,
                libraries=LibraryReport(metrics),
                labels=NodeLabels(api, options.node, options.namespace, options.root),
                reconciler=reconciler,
                found_any=found_any,
                managed=managed,
                look=look,
            ),
            keep_registered(options.root, plugins, found_any),
            compare_with_kubelet(
                options.root,
                options.node,
                dialect=dialect,
                pods=pods,
                checkpoint=KubeletCheckpoint(options.root, dialect, metrics.checkpoint_readable),
                reconciler=reconciler,
                monitor=ProcessMonitor(options.root, pods=pods, events=events, metrics=metrics, scan=scan),
                enforcer=Enforcer(
                    options.root,
                    pods=pods,
                    load=partial(load_nvml, options.root),
                    cgroup_limits=options.cgroup_limits,
                ),
                advertising=advertising,
                writer=AllocationsWriter(api, options.namespace, options.node),
                plugins=plugins,
                wake=wake,
            ),
        )
        if options.health is HealthChecks.ALL:
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


def _is_always_managed(_resource: str) -> bool:
    return True


def _make_plugins(
    options: AgentOptions,
    dialect: Dialect,
    *,
    pods: NodePods,
    metrics: Metrics,
    wake: asyncio.Event,
    is_managed: Callable[[str], bool],
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
            counted=list_device_resources(dialect),
            on_allocate=wake.set,
            count=metrics.build_allocation_counter(resource),
            environment=dialect.environment,
            mps=options.mps,
            is_managed=partial(is_managed, resource),
        )
        for resource, other in ((memory, cards), (cards, memory))
    ]


async def _watch_cards(
    options: AgentOptions,
    *,
    dialect: Dialect,
    pods: NodePods,
    node: OwnNode,
    states: CardStates,
    errors: CardErrors,
    advertising: Advertising,
    libraries: LibraryReport,
    labels: NodeLabels,
    reconciler: Reconciler,
    found_any: asyncio.Event,
    managed: ManagedResourcesWatch | None,
    look: asyncio.Event,
) -> None:
    """Look at the cards again and again; tell the kubelet and the cluster when they, or their unit, change."""
    if options.await_host_files:
        await wait_for_host_files(options.root)
    # Which unit can be advertised depends on the pods. The reflector tries until the API server answers, and says so.
    await pods.reflector.synced.wait()
    if managed is not None:
        # So that an agent that restarts does not withhold for a moment what the node offers.
        with suppress(TimeoutError):
            await asyncio.wait_for(managed.reflector.synced.wait(), _RECORD_SECONDS)
    in_use, known = _InUse(), load_usable_profiles()
    while True:
        settled = True
        try:
            found = await asyncio.to_thread(survey, options.root, known.profiles.values())
        except DevicePluginError as exc:
            # Not readable is not absent: what was shown before stays.
            log.warning("%s", exc)
        else:
            problems = libraries.update(found.libraries)
            in_use = await _list_in_use(options.root, dialect, in_use)
            if await node.read():
                if not advertising.shown and node.inventory is not None:
                    known.require(card.vendor for card in node.inventory.cards)
                    ids = DeviceIds(card.id for card in node.inventory.cards)
                    states.remember(node.inventory.cards, known.profiles, ids.count_by_card(in_use.of_all))
                await errors.follow_mended(found.cards)
                cards = await asyncio.to_thread(states.update, found.cards, node.cordon)
                cards = [each.oversubscribe(options.memory_factor) for each in cards]
                await errors.tell()
                topology = await asyncio.to_thread(compute_topology, options.root, cards)
                network = await asyncio.to_thread(compute_network, options.root, cards)
                cards = place_beside(cards, network)
                settled = await advertising.update(
                    cards,
                    topology=topology,
                    in_use=in_use.served,
                    uncounted=reconciler.uncounted,
                    library_problems=problems,
                    cdi=await asyncio.to_thread(list_cdi_kinds, options.root, cards),
                    network=network,
                )
                await labels.update([each.card for each in cards])
            if advertising.shown:
                found_any.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(look.wait(), _LOOK_SECONDS if settled else _UNIT_SECONDS)
        look.clear()


@dataclass(frozen=True)
class _InUse:
    """Device IDs that containers hold: by the resources that are served, and by those of all dialects."""

    served: frozenset[str] = frozenset()
    of_all: frozenset[str] = frozenset()


async def _list_in_use(root: Path, dialect: Dialect, before: _InUse) -> _InUse:
    try:
        answer = await list_pod_resources(root)
    except DevicePluginError:
        # A kubelet that does not answer has taken nothing back.
        return before
    devices = (each for containers in group_devices_by_pod(answer, dialect).values() for each in containers.values())
    served = (dialect.resources.memory, dialect.resources.cards)
    return _InUse(
        frozenset(each for name in served for ids in list_held_devices(answer, name).values() for each in ids),
        frozenset(device_id for each in devices for device_id in (*each.memory, *each.whole)),
    )
