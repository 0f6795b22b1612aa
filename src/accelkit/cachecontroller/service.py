"""Service `accelkit cache-controller`: watches, passes, image evaluations, leader election and servers."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accelkit.cachecontroller.cache_events import CacheEvents
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.controller import Controller
from accelkit.cachecontroller.deciding.node_claims import NodeClaims
from accelkit.cachecontroller.deciding.node_views import list_hosts, view_nodes
from accelkit.cachecontroller.delivery import DeliveryMode, FillSettings
from accelkit.cachecontroller.filling import ImageDelivery, NamespaceDelivery, build_image_volume
from accelkit.cachecontroller.judging.coverage import Coverage
from accelkit.cachecontroller.judging.judge import ImageEvaluator
from accelkit.cachecontroller.judging.pool import Judging
from accelkit.cachecontroller.live_reads.pods import LivePods
from accelkit.cachecontroller.live_reads.writer_check import WriterCheck
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.cachecontroller.plan_writer import PlanWriter
from accelkit.cachecontroller.watches import Watches
from accelkit.cachecontroller.webhook.lookup import CacheLookup
from accelkit.cachecontroller.webhook.mutation import Tools
from accelkit.cachecontroller.webhook.server import WebhookServer
from accelkit.gkm.objects import Cache, Delivery
from accelkit.kernelcache.registry import RegistrySettings
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.elected import run_elected
from accelkit.kube.events import Events
from accelkit.kube.lease import Elector, LeaseName
from accelkit.serving.probes import make_probe_server
from accelkit.serving.tls import Listen
from accelkit.stop_signals import on_stop_signal

log = logging.getLogger(__name__)

# The last writes of this replica must succeed or fail before another replica can become the leader.
_WRITE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class ControllerOptions:
    """Options of `accelkit cache-controller`.

    Attributes:
        fill: settings of Jobs, including accelkit's namespace and image.
        lease: Lease for leader election.
        identity: unique name of this replica.
        settings: connection settings for registries.
        kubeconfig: path of the kubeconfig; None for the service account of the pod or the environment.
        trusted_root: path of Sigstore's trusted root (JSON); None for the trusted root of the release.
        workers: number of images to evaluate concurrently.
        again_seconds: interval between verifications of an unchanged image.
        guard_seconds: time until all API servers are assumed to reject writable mounts of a new cache.
        metrics: address for probes and metrics; None to disable them.
        webhook: address and certificates of the pod webhook; None to disable it.
    """

    fill: FillSettings
    lease: LeaseName
    identity: str
    settings: RegistrySettings
    kubeconfig: Path | None = None
    trusted_root: Path | None = None
    workers: int = 4
    again_seconds: float = 600.0
    guard_seconds: float = 5.0
    metrics: Listen | None = None
    webhook: Listen | None = None


async def run(options: ControllerOptions) -> None:
    """Run the cache controller until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, a file cannot be used, or a port is in use.
        ApiError: the API server did not respond at startup.
    """
    stop = asyncio.Event()
    on_stop_signal(stop.set)
    connection = load_connection(options.kubeconfig)
    async with ApiClient(connection) as api, ApiClient(connection, timeout_seconds=_WRITE_SECONDS) as writer:
        service = _Service(options, api, writer)
        async with service.judge:
            await service.run(stop)
    log.info("stopped the cache controller")


def build_modes(settings: FillSettings) -> Mapping[Delivery, DeliveryMode]:
    """Return the delivery modes, which implement all deliveries."""
    return {
        Delivery.NODE: NodeClaims(),
        Delivery.NAMESPACE: NamespaceDelivery(settings),
        Delivery.IMAGE: ImageDelivery(settings),
    }


class _Service:
    """Setup of the cache controller's components."""

    def __init__(self, options: ControllerOptions, api: ApiClient, writer: ApiClient) -> None:
        self._options = options
        self._cluster = cluster = ClusterState(self._mark, home=options.fill.namespace)
        self._watches = Watches(api, cluster, self._begin)
        self._elector = Elector(
            writer, options.lease, options.identity, on_acquired=self._watches.relist, on_lost=self._end
        )
        # Whether all watched collections have been listed since this replica became the leader.
        self._begun = False
        coverage = Coverage(lambda: cluster.policies, options.trusted_root)
        self._metrics = ControllerMetrics(
            leads=self._leads,
            caches=cluster.caches.values,
            waiting=lambda: len(self._controller) + len(self._judging),
            unreadable=lambda: self._watches.unreadable,
            silent_seconds=self._watches.measure_silence_seconds,
        )
        self.judge = ImageEvaluator(api, options.settings, coverage, options.fill.namespace)
        self._webhook: WebhookServer | None = None
        if options.webhook is not None:
            self._webhook = self._make_webhook(options.webhook, writer)
        self._controller = Controller(
            cluster,
            coverage,
            PlanWriter(writer, cluster, self._metrics, self._leads),
            CacheEvents(Events(writer, "accelkit-cache-controller", socket.gethostname())),
            writers=WriterCheck(cluster, LivePods(api).read, options.guard_seconds),
            metrics=self._metrics,
            again_seconds=options.again_seconds,
        )
        self._judging = Judging(
            self.judge,
            self._metrics,
            find=cluster.caches.get,
            find_question=self._controller.find_question,
            mark=self._controller.mark,
            leads=self._leads,
            workers=options.workers,
        )
        self._controller.judging = self._judging

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set or a component fails."""
        self._controller.modes = await self._watches.add_objects(build_modes(self._options.fill))
        log.info("started leader election: identity=%s lease=%s", self._options.identity, self._options.lease.name)
        await run_elected(self._elector, self._list_services(stop), stop)

    def _list_services(self, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines to run in addition to the leader election."""
        services = [self._watches.run(), self._controller.run()]
        services += [self._judging.run() for _ in range(self._options.workers)]
        if self._options.metrics is not None:
            server = make_probe_server(self._options.metrics, self._metrics.render, self._explain_unready)
            services.append(server.run(stop))
        if self._webhook is not None:
            services.append(self._webhook.run(stop))
        return services

    def _make_webhook(self, listen: Listen, api: ApiClient) -> WebhookServer:
        cluster = self._cluster

        def find_hosts(cache: Cache) -> list[str]:
            views = view_nodes(cache, cache.status.resolved_digest, cluster.list_reports(cache), cluster.nodes)
            return list_hosts(views, by_node=cache.status.delivery == Delivery.NODE)

        server = WebhookServer(
            listen,
            lambda: cluster.caches.values() if self._watches.read else None,
            Tools(self._options.fill.image, find_hosts, build_image_volume),
            CacheLookup(api).find,
        )
        self._metrics.add_webhook(lambda: server.answers)
        return server

    def _leads(self) -> bool:
        return self._begun and self._elector.leads()

    def _begin(self) -> None:
        if self._elector.leads():
            self._begun = True
            log.info("read all watched collections: caches=%d", len(self._cluster.caches))
            self._controller.mark(None)

    def _end(self) -> None:
        self._begun = False
        self._controller.stop()
        self._judging.clear()

    def _mark(self, key: str | None) -> None:
        if self._begun:
            self._controller.mark(key)

    def _explain_unready(self) -> str:
        """Return the reason why this replica is not ready; empty if it is ready."""
        if not self._watches.read:
            return "the watched collections have not been read yet"
        return ""
