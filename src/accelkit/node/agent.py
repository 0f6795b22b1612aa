"""The loops of `accelkit node-agent`: find the node's cards, publish them, and serve them to the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.events import Events
from accelkit.node.advertising import Advertising
from accelkit.node.card_metrics.show import show_cards
from accelkit.node.card_states import CardStates
from accelkit.node.card_survey import watch_cards
from accelkit.node.device_plugin.container_response import list_card_nodes
from accelkit.node.device_plugin.former_resource import make_former_resources
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.device_plugin.registration import keep_registered
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.enforcement.enforcer import Enforcer
from accelkit.node.enforcement.mps import find_enforcement
from accelkit.node.health import HealthChecks, HealthMonitor
from accelkit.node.health.card_errors import CardErrors
from accelkit.node.health.xids import XidWatch
from accelkit.node.labels import NodeLabels
from accelkit.node.library_report import LibraryReport
from accelkit.node.managed_resources import ManagedResourcesWatch
from accelkit.node.metrics import Metrics
from accelkit.node.options import AgentOptions
from accelkit.node.own_node import OwnNode
from accelkit.node.pods import NodePods
from accelkit.node.processes.monitor import ProcessMonitor
from accelkit.node.processes.passed_on import PassedScan
from accelkit.node.reconciliation.comparison import compare_with_kubelet
from accelkit.node.reconciliation.kubelet_checkpoint import KubeletCheckpoint
from accelkit.node.reconciliation.observed_config_map import AllocationsWriter
from accelkit.node.reconciliation.reconciler import Reconciler
from accelkit.node.slots.plugin import DIALECT, make_slot_plugins
from accelkit.plugins.catalogue import describe_plugins
from accelkit.plugins.interface import DIALECTS, PROFILES
from accelkit.stop_signals import on_stop_signal
from accelkit.vendors.counted_dialects import list_device_resources
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.pod_reading import PodReader
from accelkit.vendors.profiles import load_usable_profiles

log = logging.getLogger(__name__)

COMPONENT = "accelkit-node-agent"


async def run(options: AgentOptions) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or the port of metrics is taken.
        DevicePluginError: the cards have more devices than the kubelet accepts.
    """
    stop = asyncio.Event()
    on_stop_signal(stop.set)
    for name in describe_plugins({DIALECTS: [options.dialect], PROFILES: load_usable_profiles().profiles}):
        log.info("using the %s", name)
    metrics = Metrics()
    metrics.serve(options.metrics_port, stop)
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        dialect = load_dialect(options.dialect)
        resources = list_device_resources(dialect)
        wake, survey_now = asyncio.Event(), asyncio.Event()
        managed = None
        if options.managed_resources and options.namespace:
            managed = ManagedResourcesWatch(api, options.namespace, options.managed_resources, survey_now.set)
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

        def note_new_kubelet() -> None:
            for each in (pods, slot_pods):
                each.note_new_kubelet()

        plugins = [*plugins, *slots, *make_former_resources(options.root, dialect, pods)]
        node = OwnNode(api, options.node)
        advertising = Advertising(
            node,
            options.root,
            cluster_unit_bytes=options.unit_bytes,
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
            watch_cards(
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
                survey_now=survey_now,
            ),
            keep_registered(options.root, plugins, found_any, note_new_kubelet),
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
    log.info("node agent stopped")


async def run_until(stop: asyncio.Event, loops: Iterable[Coroutine[object, object, None]]) -> None:
    """Run the loops until `stop` is set. The first error of a loop stops all loops, and is raised without a group."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop) for loop in loops]
            await stop.wait()
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failures:
        # The command reports one error. The others are its consequences, or the next start reports them.
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
