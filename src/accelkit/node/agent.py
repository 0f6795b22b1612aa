"""The loops of `accelkit node-agent`, which find the node's cards, publish them, and serve them to the kubelet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.events import Events
from accelkit.kube.side_by_side import run_until
from accelkit.node.advertising import Advertising
from accelkit.node.card_metrics.exposition import register_card_metrics
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
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.pod_reading import PodReader
from accelkit.vendors.profiles import load_usable_profiles

log = logging.getLogger(__name__)

COMPONENT = "accelkit-node-agent"


async def run(options: AgentOptions) -> None:
    """Run the node agent until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or the metrics port is already in use.
        DevicePluginError: the cards have more devices than the kubelet accepts.
    """
    stop = asyncio.Event()
    on_stop_signal(stop.set)
    for name in describe_plugins({DIALECTS: [options.dialect], PROFILES: load_usable_profiles().profiles}):
        log.info("loaded the %s", name)
    metrics = Metrics()
    metrics.serve(options.metrics_port, stop)
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        agent = _Agent(options, api, metrics)
        try:
            await run_until(stop, agent.build_loops())
        finally:
            await agent.stop()
    log.info("node agent stopped")


class _Agent:
    """The components of the node agent and their connections."""

    def __init__(self, options: AgentOptions, api: ApiClient, metrics: Metrics) -> None:
        self._options = options
        self._api = api
        self._metrics = metrics
        self._dialect = load_dialect(options.dialect)
        self._wake, self._survey_now = asyncio.Event(), asyncio.Event()
        self._managed = None
        if options.managed_resources and options.namespace:
            self._managed = ManagedResourcesWatch(
                api, options.namespace, options.managed_resources, self._survey_now.set
            )
        self._pods = NodePods(api, options.node, self._dialect, on_change=self._wake.set)
        reader = PodReader([DIALECT])
        self._slot_pods = NodePods(api, options.node, DIALECT, reader=reader, on_change=self._wake.set)
        self._slots = self._make_slot_plugins()
        former = make_former_resources(options.root, self._dialect, self._pods)
        self._plugins = [*self._make_plugins(), *self._slots, *former]
        self._node = OwnNode(api, options.node)
        self._advertising = self._make_advertising()
        self._events = Events(api, COMPONENT, options.node)
        self._reconciler = Reconciler(
            api,
            pods=self._pods,
            cards=self._advertising.list_node_cards,
            events=self._events,
            metrics=metrics,
        )
        self._scan = PassedScan(options.scan_folder)
        self._xids = XidWatch(partial(load_nvml, options.root))

    def build_loops(self) -> list[Coroutine[object, object, None]]:
        """Start the XID watch if it is enabled, and return all loops without starting them."""
        found_any = asyncio.Event()
        loops = [
            self._pods.reflector.run(),
            self._watch_cards(found_any),
            keep_registered(self._options.root, self._plugins, found_any, self._note_new_kubelet),
            self._compare_with_kubelet(),
        ]
        if self._slots:
            loops.append(self._slot_pods.reflector.run())
        if self._managed:
            loops.append(self._managed.reflector.run())
        if self._options.metrics_port:
            loops.append(self._watch_card_metrics())
        if self._options.health is HealthChecks.ALL:
            self._xids.start()
        return loops

    async def stop(self) -> None:
        """Stop the XID watch and the device plugins."""
        await asyncio.to_thread(self._xids.stop)
        for plugin in self._plugins:
            await plugin.stop()

    def _note_new_kubelet(self) -> None:
        for each in (self._pods, self._slot_pods):
            each.note_new_kubelet()

    def _is_managed(self, resource: str) -> bool:
        return self._managed is None or self._managed.lists(resource)

    def _watch_card_metrics(self) -> Coroutine[object, object, None]:
        watch = register_card_metrics(
            self._metrics.registry,
            self._options.node,
            cards=self._advertising.list_found_cards,
            pods=[self._pods, self._slot_pods] if self._slots else [self._pods],
            load_nvml=partial(load_nvml, self._options.root),
            last_xids=self._metrics.last_xids,
        )
        return watch.run(self._advertising.list_found_cards)

    def _watch_cards(self, found_any: asyncio.Event) -> Coroutine[object, object, None]:
        options = self._options
        monitor = HealthMonitor(options.root, nodes=list_card_nodes, checks=options.health, reported=self._xids.take)
        list_daemons = self._scan.list_mps_daemons
        return watch_cards(
            options,
            dialect=self._dialect,
            pods=self._pods,
            node=self._node,
            states=CardStates(
                monitor,
                partial(find_enforcement, options.root, folders=options.mps, list_daemons=list_daemons),
            ),
            errors=CardErrors(self._node, monitor=monitor, events=self._events, metrics=self._metrics),
            advertising=self._advertising,
            libraries=LibraryReport(self._metrics),
            labels=NodeLabels(self._api, options.node, options.namespace, options.root),
            reconciler=self._reconciler,
            found_any=found_any,
            managed=self._managed,
            survey_now=self._survey_now,
        )

    def _compare_with_kubelet(self) -> Coroutine[object, object, None]:
        options = self._options
        return compare_with_kubelet(
            options.root,
            options.node,
            dialect=self._dialect,
            pods=self._pods,
            checkpoint=KubeletCheckpoint(options.root, self._dialect, self._metrics.checkpoint_readable),
            reconciler=self._reconciler,
            monitor=ProcessMonitor(
                options.root, pods=self._pods, events=self._events, metrics=self._metrics, scan=self._scan
            ),
            enforcer=Enforcer(
                options.root,
                pods=self._pods,
                load=partial(load_nvml, options.root),
                cgroup_limits=options.cgroup_limits,
            ),
            advertising=self._advertising,
            writer=AllocationsWriter(self._api, options.namespace, options.node),
            plugins=self._plugins,
            wake=self._wake,
        )

    def _make_advertising(self) -> Advertising:
        resources = list_device_resources(self._dialect)
        return Advertising(
            self._node,
            self._options.root,
            cluster_unit_bytes=self._options.unit_bytes,
            resources=[each for each in resources.memory if each not in resources.ambiguous],
            pods=self._pods,
            plugins=self._plugins,
            former_unit_bytes=self._options.former_unit_bytes,
        )

    def _make_slot_plugins(self) -> Sequence[DevicePlugin]:
        return make_slot_plugins(
            self._options.root,
            self._slot_pods,
            per_card=self._options.gas_slots,
            on_allocate=self._wake.set,
            build_counter=self._metrics.build_allocation_counter,
            is_managed=self._is_managed,
        )

    def _make_plugins(self) -> Sequence[DevicePlugin]:
        options, dialect = self._options, self._dialect
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
                pods=self._pods,
                allocations=allocations[resource],
                other=(other, allocations[other]),
                steering=options.steering,
                counted=list_device_resources(dialect),
                on_allocate=self._wake.set,
                count=self._metrics.build_allocation_counter(resource),
                environment=dialect.environment,
                mps=options.mps,
                is_managed=partial(self._is_managed, resource),
            )
            for resource, other in ((memory, cards), (cards, memory))
        ]
