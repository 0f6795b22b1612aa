"""Service `accelkit extender`, which runs its watches, background tasks and HTTP server as one group of tasks."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from accelkit.extender.binder import Binder
from accelkit.extender.bindings import PREDECESSOR_SECONDS
from accelkit.extender.fencing import Fence
from accelkit.extender.foreign_inspect import make_foreign_inspects
from accelkit.extender.groups.pod_groups import GroupTimes, PodGroups
from accelkit.extender.leadership import TAKEOVER_SECONDS, Leadership, Replica
from accelkit.extender.metrics import ExtenderMetrics
from accelkit.extender.pod_comparison import PodComparison
from accelkit.extender.pod_watch import PodWatch
from accelkit.extender.preemption.evictor import Evictor
from accelkit.extender.preemption.holds import Holds
from accelkit.extender.preemption.refusals import Refusals
from accelkit.extender.preemption.verb import PreemptVerb
from accelkit.extender.read_port.port import make_read_server, make_review_client
from accelkit.extender.readiness import Readiness
from accelkit.extender.routes import Routes
from accelkit.extender.sharing.metrics import SharingCollector
from accelkit.extender.sharing.rules_file import RulesFile
from accelkit.extender.simulation.simulator import Simulator
from accelkit.extender.stages.metrics import StageTexts
from accelkit.extender.stages.node_watch import NodeWatch
from accelkit.extender.stages.records import StageRecords
from accelkit.extender.verbs import MOST_NODES, Verbs
from accelkit.extender.waking.waker import Waker
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.events import Events
from accelkit.kube.heartbeat import Heartbeat
from accelkit.kube.paths import NODES, PODS, build_config_maps_path
from accelkit.kube.reflector import Reflector
from accelkit.kube.views.scheduling import SchedulingNode, SchedulingPod
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import ConfigMap, Node, Pod
from accelkit.placement.policies import AnyPolicy
from accelkit.plugins.catalogue import describe_plugins
from accelkit.plugins.interface import DIALECTS, POLICIES
from accelkit.serving.server import HeadServer, HttpServer
from accelkit.serving.tls import Listen
from accelkit.stop_signals import on_stop_signal
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import load_dialects

log = logging.getLogger(__name__)

# ConfigMaps in which other systems list the unhealthy cards of nodes.
LISTS = build_config_maps_path("kube-system")
_PROBE_CONNECTIONS = 64

_Nodes = Reflector[Node] | Reflector[SchedulingNode]
_Pods = Reflector[Pod] | Reflector[SchedulingPod]


@dataclass(frozen=True)
class ExtenderOptions:
    """Options of `accelkit extender`."""

    listen: Listen
    unit_bytes: int
    policy: AnyPolicy
    dialects: tuple[str, ...]
    kubeconfig: Path | None = None
    replica: Replica | None = None
    probes: Listen | None = None
    wake: bool = False
    reads: Listen | None = None
    certificates: Path | None = None
    container_limits: bool = False
    most_nodes: int = MOST_NODES
    unread_annotations: frozenset[str] = frozenset()
    http2: bool = True
    sharing_rules: Path | None = None
    groups: GroupTimes | None = None
    evict_for_priority: bool = False


async def run(options: ExtenderOptions) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or the port cannot be used.
    """
    stop = asyncio.Event()
    on_stop_signal(stop.set)
    for name in describe_plugins({DIALECTS: options.dialects, POLICIES: [str(options.policy)]}):
        log.info("using the %s", name)
    connection = load_connection(options.kubeconfig)
    async with ApiClient(connection) as api, make_review_client(connection) as reviews:
        await _Service(options, api, reviews).run(stop)
    log.info("extender stopped")


class _Service:
    """Setup of the extender's components."""

    def __init__(self, options: ExtenderOptions, api: ApiClient, reviews: ApiClient) -> None:
        dialects = [each.without(options.unread_annotations) for each in load_dialects(options.dialects)]
        self._ledger = ledger = Ledger(unit_bytes=options.unit_bytes)
        replica = options.replica
        self._leadership = Leadership(api, replica, on_acquired=self._acquired, on_lost=self._lost) if replica else None
        # Whether the pods have been read since this replica became the leader.
        self._read = False
        self._listen = options.listen
        self._feed = LedgerFeed(ledger, dialects)
        self._rules = RulesFile(options.sharing_rules) if options.sharing_rules else None
        if self._rules is not None:
            self._feed.take_rules(self._rules.read())
        self._heartbeat = Heartbeat(api)
        self._readiness = Readiness(
            synced=self._synced,
            silent_seconds=self._silent_seconds,
            leadership=self._leadership,
            pods_current=lambda: self._read,
        )
        self._events = Events(api, "accelkit-extender", socket.gethostname())
        self._groups = self._make_groups(options, api)
        self._holds = Holds(ledger, self._feed, options.policy)
        self._binder = self._make_binder(options, api)
        self._fence = Fence(
            api,
            self._feed,
            may_write=self._readiness.leads,
            take=self._binder.outcomes.take_read,
            on_fenced=self._binder.open,
        )
        self._binder.outcomes.fence = self._fence.fence_pod
        feed, self._pod_watch = self._feed, PodWatch(ledger, self._feed, self._holds)
        self._stages = StageRecords()
        self._nodes, self._pods = self._make_watches(api)
        self._lists = self._make_lists_watch(api, dialects)
        metrics = self._make_metrics(options)
        self._comparison = PodComparison(
            api,
            feed,
            compares=lambda: self._readiness.leads() and not self._pods.measure_silence_seconds(),
            relist=self._pods.relist,
            lost=metrics.count_lost_events(),
        )
        self._waker = self._make_waker(options, api, metrics)
        is_member = self._groups.is_member if self._groups else None
        refusals = Refusals(is_member=is_member) if options.evict_for_priority else None
        self._evictor = self._make_evictor(options, api, refusals, metrics)
        self._routes = self._make_routes(options, metrics, refusals)
        self._server = HttpServer(options.listen, self._routes.handle, http2=options.http2)
        self._probes = (
            HeadServer(options.probes, self._routes.handle_probe, connections=_PROBE_CONNECTIONS)
            if options.probes
            else None
        )
        endpoint = replica.endpoint if replica else None
        self._reads = (
            make_read_server(options.reads, self._routes, reviews, endpoint) if options.reads and endpoint else None
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set or a component fails."""
        log.info("extender is listening on %s:%d", self._listen.host, self._listen.port)
        work = [self._nodes.run(), self._pods.run(), self._heartbeat.run(), self._binder.outcomes.run()]
        work += [self._holds.run(), self._comparison.run()]
        if self._lists is not None:
            work.append(self._lists.run())
        if self._rules is not None:
            work.append(self._rules.run(self._feed.take_rules))
        if self._waker is not None:
            work.append(self._waker.run())
        if self._groups is not None:
            work.append(self._groups.run())
        if self._evictor is not None:
            work.append(self._evictor.run())
        if self._leadership is not None:
            work.append(self._leadership.run())
        work += [each.run(stop) for each in (self._probes, self._reads) if each is not None]
        background = [asyncio.create_task(each) for each in work]
        serving = asyncio.create_task(self._server.run(stop))
        try:
            done, _ = await asyncio.wait({serving, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            stop.set()
            # Renew the Lease until the binds in progress have finished, so that the response to each Binding is
            # received.
            await asyncio.wait({serving})
            await self._binder.finish()
            if self._leadership is not None and not self._binder.unsettled:
                await self._leadership.release()
            for task in background:
                task.cancel()
            await asyncio.gather(serving, *background, return_exceptions=True)

    def _make_binder(self, options: ExtenderOptions, api: ApiClient) -> Binder:
        return Binder(
            api,
            self._ledger,
            self._feed,
            options.policy,
            opens_at=time.monotonic() + PREDECESSOR_SECONDS,
            container_limits=options.container_limits,
            readiness=self._readiness,
            admit=self._groups.admit if self._groups else None,
            on_released=self._holds.note,
        )

    def _make_lists_watch(self, api: ApiClient, dialects: Sequence[Dialect]) -> Reflector[ConfigMap] | None:
        # The permission to watch these ConfigMaps is granted only for dialects that use them.
        if not any(dialect.unhealthy_cards for dialect in dialects):
            return None
        feed = self._feed
        return Reflector(
            api, LISTS, ConfigMap, on_replace=feed.replace_config_maps, on_event=feed.take_config_map_event
        )

    def _make_metrics(self, options: ExtenderOptions) -> ExtenderMetrics:
        ledger, feed, rules = self._ledger, self._feed, self._rules
        return ExtenderMetrics(
            ledger,
            self._silent_seconds,
            self._readiness.leads,
            certificates=options.certificates,
            sharing=None if rules is None else SharingCollector(ledger, lambda: rules.current),
            invalid_assignments=lambda: feed.invalid_assignments,
            unreadable=self._count_unreadable,
            requests=lambda: self._server.requests,
            stages=StageTexts(self._stages, ledger, self._readiness.leads).render,
        )

    def _make_routes(self, options: ExtenderOptions, metrics: ExtenderMetrics, refusals: Refusals | None) -> Routes:
        ledger, feed, groups = self._ledger, self._feed, self._groups
        note_refused = refusals.note if refusals else None
        verbs = Verbs(ledger, feed, options.policy, most_nodes=options.most_nodes, note_refused=note_refused)
        return Routes(
            ledger,
            verbs,
            self._binder,
            metrics,
            simulator=Simulator(ledger, feed, verbs, groups.describe if groups else None),
            preemption=PreemptVerb(ledger, feed, options.policy),
            readiness=self._readiness,
            foreign=make_foreign_inspects(options.dialects, feed.created.get),
            dialects=options.dialects,
        )

    def _make_groups(self, options: ExtenderOptions, api: ApiClient) -> PodGroups | None:
        if options.groups is None:
            return None
        return PodGroups(
            api,
            self._ledger,
            self._feed,
            options.policy,
            events=self._events,
            times=options.groups,
            decides=self._may_assign,
            is_under_way=lambda uid: self._binder.is_under_way(uid),  # noqa: PLW0108 - the binder is created later
            is_unsettled=lambda uid: self._binder.is_unsettled(uid),  # noqa: PLW0108 - the same
        )

    def _make_waker(self, options: ExtenderOptions, api: ApiClient, metrics: ExtenderMetrics) -> Waker | None:
        if not options.wake:
            return None
        leads, feed = self._readiness.leads, self._feed
        return Waker(api, self._ledger, feed, options.policy, read=self._synced, leads=leads, writes=metrics.wakes)

    def _make_evictor(
        self, options: ExtenderOptions, api: ApiClient, refusals: Refusals | None, metrics: ExtenderMetrics
    ) -> Evictor | None:
        if refusals is None:
            return None
        ledger, feed, evictions = self._ledger, self._feed, metrics.count_evictions()
        leads, events = self._may_assign, self._events
        return Evictor(
            api, ledger, feed, options.policy, events=events, refusals=refusals, leads=leads, evictions=evictions
        )

    def _make_watches(self, api: ApiClient) -> tuple[_Nodes, _Pods]:
        feed, stages, take = self._feed, self._stages, self._pod_watch.take_event
        if self._groups is not None:
            nodes = self._groups.watch_nodes(self._replace_grouped_nodes, stages.take_event)
            return nodes, self._groups.watch_pods(self._replace_pods, take)
        watch = NodeWatch(feed, stages, on_replace=self._holds.review)
        return Reflector(api, NODES, Node, on_replace=watch.replace, on_event=watch.take_event), Reflector(
            api,
            PODS,
            Pod,
            trim=feed.trim_pod,
            on_replace=self._replace_pods,
            on_event=take,
            on_unreadable=feed.take_unreadable_pod,
        )

    def _replace_grouped_nodes(self, nodes: list[Node]) -> None:
        self._stages.replace(nodes)
        self._holds.review()

    def _replace_pods(self, pods: list[Pod]) -> None:
        for held in self._pod_watch.replace(pods, self._pods.version):
            # No Binding was sent for claims and for reservations of groups, so there is no outcome to read.
            if held.stage is not ShareStage.CLAIMED and (self._groups is None or not self._groups.holds(held.pod.uid)):
                self._binder.outcomes.recheck(held)
        if self._read:
            return
        self._read = True
        self._open_or_fence()

    def _open_or_fence(self) -> None:
        if not self._feed.pending:
            # If no pod was waiting, a previous process cannot have sent a Binding whose result is missing from the
            # list.
            self._binder.open()
        elif self._leadership is not None and self._leadership.leads() and self._leadership.may_fence:
            self._fence.begin()

    def _acquired(self) -> None:
        if self._leadership is not None and self._leadership.resumed:
            # No other replica has sent a Binding since, so the pods need not be read again.
            if self._read and not self._binder.try_open():
                self._open_or_fence()
            return
        # As after a start, Bindings from the previous leader may still take effect, and the watch may be outdated.
        self._read = False
        self._binder.begin_term(time.monotonic() + TAKEOVER_SECONDS)
        self._pods.relist()

    def _lost(self) -> None:
        self._fence.cancel()
        # Otherwise, kube-scheduler would keep its connections to this replica, although the Service routes to another
        # replica.
        self._server.renew()

    def _may_assign(self) -> bool:
        """Return whether this replica may assign cards now."""
        return self._binder.try_open() and self._readiness.may_bind()

    def _silent_seconds(self) -> float:
        watches = (self._nodes, self._pods, self._heartbeat)
        return max(each.measure_silence_seconds() for each in watches)

    def _count_unreadable(self) -> int:
        lists = self._lists.unreadable if self._lists else 0
        return self._feed.unreadable + self._nodes.unreadable + self._pods.unreadable + lists

    def _synced(self) -> bool:
        return self._nodes.synced.is_set() and self._pods.synced.is_set()
