"""Service `accelkit remediation`: a group of tasks for the node watch, passes, leader election and the metrics port."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.elected import run_elected
from accelkit.kube.events import Events
from accelkit.kube.lease import Elector, LeaseName
from accelkit.kube.paths import NODES
from accelkit.kube.reflector import Reflector
from accelkit.remediation.action_writer import ActionWriter
from accelkit.remediation.breaker_store import BreakerStore
from accelkit.remediation.controller import Controller
from accelkit.remediation.deciding.settings import RemediationSettings
from accelkit.remediation.metrics import RemediationMetrics
from accelkit.remediation.nodes import NodeIndex, NodeObject
from accelkit.remediation.reading import NodeReader
from accelkit.serving.probes import make_probe_server
from accelkit.serving.tls import Listen
from accelkit.stop_signals import on_stop_signal
from accelkit.vendors.dialect import Dialect

log = logging.getLogger(__name__)

# The timeout of requests. A request at the end of a term must end before the term of another replica can begin.
_WRITE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class ServiceOptions:
    """Options of `accelkit remediation`.

    Attributes:
        settings: the administrator's settings.
        namespace: accelkit's namespace.
        lease: the Lease for leader election.
        identity: the unique name of this replica.
        agent: the value of the name label on the pods of node agents.
        dialects: the dialects whose resource names may be used by pods.
        pause_seconds: the pause between two passes.
        kubeconfig: the path of a kubeconfig file; None to use the pod's service account or the environment.
        metrics: the address at which probes and metrics are served; None to serve neither.
    """

    settings: RemediationSettings
    namespace: str
    lease: LeaseName
    identity: str
    agent: str
    dialects: Sequence[Dialect]
    pause_seconds: float = 10.0
    kubeconfig: Path | None = None
    metrics: Listen | None = None


async def run(options: ServiceOptions) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or a port is already in use.
    """
    stop = asyncio.Event()
    on_stop_signal(stop.set)
    connection = load_connection(options.kubeconfig)
    async with ApiClient(connection) as api, ApiClient(connection, timeout_seconds=_WRITE_SECONDS) as writer:
        await _Service(options, api, writer).run(stop)
    log.info("stopped remediation")


class _Service:
    """The components of a replica."""

    def __init__(self, options: ServiceOptions, api: ApiClient, writer: ApiClient) -> None:
        self._options = options
        settings, nodes = options.settings, NodeIndex()
        self._nodes = nodes
        self._read = self._begun = False
        self._reflector = Reflector(api, NODES, NodeObject, on_replace=self._replace, on_event=nodes.take_event)
        self._elector = Elector(
            writer, options.lease, options.identity, on_acquired=self._reflector.relist, on_lost=self._end
        )
        self._metrics = RemediationMetrics(
            leads=self._leads,
            nodes=lambda: sum(each.active for each in nodes.list_all()),
            called=lambda: sum(each.called for each in nodes.list_all()),
            breaker=lambda: self._controller.breaker.open,
            unreadable=lambda: self._reflector.unreadable,
            silent_seconds=self._reflector.measure_silence_seconds,
        )
        applier = ActionWriter(
            writer,
            Events(writer, "accelkit-remediation", socket.gethostname()),
            namespace=options.namespace,
            reset_job=settings.reset_job,
            job_seconds=settings.repair_seconds,
            leads=self._leads,
            on_node=nodes.take,
            count=self._metrics.count,
        )
        reader = NodeReader(
            writer, options.namespace, options.agent, options.dialects, reads_jobs=bool(settings.reset_job)
        )
        self._controller = Controller(
            nodes.list_all,
            reader,
            applier,
            BreakerStore(writer, options.namespace, f"{options.lease.name}-breaker"),
            settings=settings,
            metrics=self._metrics,
            ready=self._leads,
            silent_seconds=self._reflector.measure_silence_seconds,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run the components until `stop` is set or a component fails."""
        log.info("started leader election identity=%s lease=%s", self._options.identity, self._options.lease.name)
        await run_elected(self._elector, self._list_services(stop), stop)

    def _list_services(self, stop: asyncio.Event) -> list[Coroutine[Any, Any, None]]:
        """Return the tasks that run in addition to leader election."""
        services = [self._reflector.run(), self._controller.run(self._options.pause_seconds)]
        if self._options.metrics is not None:
            server = make_probe_server(self._options.metrics, self._metrics.render, self._explain_unready)
            services.append(server.run(stop))
        return services

    def _leads(self) -> bool:
        return self._begun and self._elector.leads()

    def _replace(self, nodes: list[NodeObject]) -> None:
        self._nodes.replace(nodes)
        self._read = True
        # Data that was read before this term may be out of date.
        self._begun = self._elector.leads()

    def _end(self) -> None:
        self._begun = False

    def _explain_unready(self) -> str:
        """Return the reason why this replica cannot become the leader yet; empty if it can."""
        return "" if self._read else "the cluster has not been read yet"
