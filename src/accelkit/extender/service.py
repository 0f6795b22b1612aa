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
    async with ApiClient(load_connection(options.kubeconfig)) as api:
        await _Service(options, api).run(stop)
    log.info("extender ended")


class _Service:
    """The parts of one extender, wired together."""

    def __init__(self, options: Options, api: ApiClient) -> None:
        dialects = load_dialects(options.dialects)
        ledger = Ledger(unit_bytes=options.unit_bytes)
        opens_at = time.monotonic() + PREDECESSOR_SECONDS
        self._listen = options.listen
        self._feed = LedgerFeed(ledger, dialects)
        self._binder = Binder(api, ledger, self._feed, dialects, options.policy, opens_at=opens_at)
        self._heartbeat = Heartbeat(api)
        feed = self._feed
        self._nodes = Reflector(api, NODES, Node, on_replace=feed.replace_nodes, on_event=feed.node_event)
        self._pods = Reflector(api, PODS, Pod, on_replace=self._replace_pods, on_event=feed.pod_event)
        self._routes = Routes(
            ledger,
            Verbs(ledger, feed, dialects, options.policy),
            self._binder,
            Metrics(ledger, self._silent_seconds),
            trouble=self._trouble,
            unread=self._unread,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, or a part fails."""
        log.info("extender listens on %s:%d", self._listen.host, self._listen.port)
        work = (self._nodes.run(), self._pods.run(), self._heartbeat.run(), self._binder.settle())
        background = [asyncio.create_task(each) for each in work]
        serving = asyncio.create_task(serve(self._listen, self._routes.handle, stop))
        try:
            done, _ = await asyncio.wait({serving, *background}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            stop.set()
            for task in background:
                task.cancel()
            await asyncio.gather(serving, *background, return_exceptions=True)

    def _replace_pods(self, pods: list[Pod]) -> None:
        for held in self._feed.replace_pods(pods):
            self._binder.doubt(held)
        if not self._pods.synced.is_set() and not self._feed.pending:
            # No pod was waiting, so no predecessor can have sent a Binding that we have not seen.
            self._binder.open()

    def _silent_seconds(self) -> float:
        watches = (self._nodes, self._pods, self._heartbeat)
        return max(each.silent_seconds() for each in watches)

    def _unread(self) -> str:
        synced = self._nodes.synced.is_set() and self._pods.synced.is_set()
        return "" if synced else "the cluster has not been read yet"

    def _trouble(self) -> str:
        silence = self._silent_seconds()
        if not self._unread() and silence > _SILENCE_SECONDS:
            return f"the API server has been away for {silence:.0f} s"
        return self._unread()
