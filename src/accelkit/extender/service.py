"""The service `accelkit extender`: watches, settling and the HTTP server as one task group."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from accelkit.cluster.client import ApiClient
from accelkit.cluster.connection import load_connection
from accelkit.cluster.feed import NODES, PODS, LedgerFeed
from accelkit.cluster.heartbeat import Heartbeat
from accelkit.cluster.reflector import Reflector
from accelkit.extender.binder import PREDECESSOR_SECONDS, Binder
from accelkit.extender.metrics import Metrics
from accelkit.extender.routes import Routes
from accelkit.extender.server import Listen, serve
from accelkit.extender.verbs import Verbs
from accelkit.model.pod import Node, Pod
from accelkit.placement.ledger import Ledger
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

log = logging.getLogger(__name__)

# A watch that resumes at once is no trouble; an API server away for longer makes us unready.
_SILENCE_SECONDS = 5.0


@dataclass(frozen=True)
class Options:
    """What `accelkit extender` was told."""

    listen: Listen
    unit_bytes: int
    policy: Policy
    dialects: tuple[str, ...]
    kubeconfig: Path | None = None


async def run(options: Options) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: no cluster is configured, or the port cannot be used.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    dialects = load_dialects(options.dialects)
    ledger = Ledger(unit_bytes=options.unit_bytes)
    feed = LedgerFeed(ledger, dialects)
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        binder = Binder(api, ledger, feed, dialects, options.policy, opens_at=time.monotonic() + PREDECESSOR_SECONDS)

        def replace_pods(listed: list[Pod]) -> None:
            for held in feed.replace_pods(listed):
                binder.doubt(held)
            if not pods.synced.is_set() and not feed.pending:
                # No pod was waiting, so no predecessor can have sent a Binding that we have not seen.
                binder.open()

        heartbeat = Heartbeat(api)
        nodes = Reflector(api, NODES, Node, on_replace=feed.replace_nodes, on_event=feed.node_event)
        pods = Reflector(api, PODS, Pod, on_replace=replace_pods, on_event=feed.pod_event)

        def silent_seconds() -> float:
            return max(nodes.silent_seconds(), pods.silent_seconds(), heartbeat.silent_seconds())

        def unread() -> str:
            synced = nodes.synced.is_set() and pods.synced.is_set()
            return "" if synced else "the cluster has not been read yet"

        def trouble() -> str:
            if not unread() and silent_seconds() > _SILENCE_SECONDS:
                return f"the API server has been away for {silent_seconds():.0f} s"
            return unread()

        verbs = Verbs(ledger, feed, dialects, options.policy)
        routes = Routes(ledger, verbs, binder, Metrics(ledger, silent_seconds), trouble=trouble, unread=unread)
        log.info("extender listens on %s:%d", options.listen.host, options.listen.port)
        background = [asyncio.create_task(task) for task in (nodes.run(), pods.run(), heartbeat.run(), binder.settle())]
        serving = asyncio.create_task(serve(options.listen, routes.handle, stop))
        try:
            done, _ = await asyncio.wait({serving, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            stop.set()
            for task in background:
                task.cancel()
            await asyncio.gather(serving, *background, return_exceptions=True)
    log.info("extender ended")
