"""Routes of the extender, which decode requests, call the verbs and views, and encode the results.

Errors of filter and bind are sent as HTTP 200 with `Error` set, because kube-scheduler reports this text to the user.
For any other status, it reports only the status code. All other errors are sent as 4xx or 503 with {"error": …}.

This module does not use sockets.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType

import msgspec

from accelkit import __version__
from accelkit.errors import AccelkitError, BadArgsError, NotLeadingError, NotReadyError, PluginError
from accelkit.extender.binder import Binder
from accelkit.extender.foreign_inspect import ForeignInspect
from accelkit.extender.metrics import CONTENT_TYPE, ExtenderMetrics
from accelkit.extender.preemption.verb import PreemptVerb
from accelkit.extender.preemption.wire import PreemptionArgs
from accelkit.extender.readiness import Readiness
from accelkit.extender.simulation.simulator import Simulator
from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args, BindingArgs, BindingResult, FilterResult
from accelkit.inspection.inspection import assemble, is_worth_showing, view_node
from accelkit.inspection.simulation import MAX_QUESTION_BYTES, SimulationQuestion
from accelkit.kube.listing import UNREADABLE
from accelkit.ledger.ledger import Ledger
from accelkit.logs import RepeatLog
from accelkit.serving.server import Headers, Reply
from accelkit.vendors.dialects import list_extender_paths

log = logging.getLogger(__name__)

# Simulations do not have side effects, and do not return more data than GET /inspect.
SIMULATE = "/simulate"
# Number of nodes to encode before other requests are handled.
_INSPECT_BATCH = 50


class Routes:
    """Request handler for all paths of the extender.

    Args:
        ledger: the ledger that inspect reports.
        verbs: the verbs filter and prioritize.
        binder: the bind verb.
        simulator: the simulator of the verbs.
        preemption: the preempt verb.
        metrics: the metrics, which count requests and provide the response for /metrics.
        readiness: the conditions under which this replica serves the verbs.
        foreign: the handlers of inspect at the paths of other systems, by prefix.
        dialects: the names of the enabled dialects.
    """

    def __init__(
        self,
        ledger: Ledger,
        verbs: Verbs,
        binder: Binder,
        metrics: ExtenderMetrics,
        *,
        simulator: Simulator,
        preemption: PreemptVerb,
        readiness: Readiness,
        foreign: Mapping[str, ForeignInspect] = MappingProxyType({}),
        dialects: Collection[str] = (),
    ) -> None:
        # Prefixes of the extenders that accelkit replaces. accelkit's own paths have no prefix.
        self._prefixes = list_extender_paths(dialects)
        self._foreign = foreign
        self._readiness = readiness
        self._ledger = ledger
        self._verbs = verbs
        self._binder = binder
        self._simulator = simulator
        self._preemption = preemption
        self._metrics = metrics
        self._repeats = RepeatLog(log)
        self._args = msgspec.json.Decoder(Args)
        self._preempted = msgspec.json.Decoder(PreemptionArgs)
        self._binding = msgspec.json.Decoder(BindingArgs)
        self._question = msgspec.json.Decoder(SimulationQuestion)
        self._encode = msgspec.json.Encoder().encode
        self._posts: Mapping[str, Callable[[bytes], Awaitable[Reply]]] = {
            "/filter": self._filter,
            "/prioritize": self._prioritize,
            "/bind": self._bind,
            "/preempt": self._preempt,
        }
        self._gets: Mapping[str, Callable[[], Awaitable[Reply]]] = {
            "/inspect": self._inspect,
            "/version": self._version,
            "/metrics": self._get_metrics,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
        }

    async def handle(self, method: str, path: str, body: bytes) -> Reply:
        """Handle one request."""
        route = self._strip_prefix(path)
        if (post := self._posts.get(route)) is not None:
            return await self._verb(method, path, route, body, post)
        simulates = route == SIMULATE
        if method != ("POST" if simulates else "GET"):
            return self._refuse(405 if simulates or route in self._gets else 404, f"{method} {path} does not exist")
        try:
            return await (self._simulate(body) if simulates else self._get(path, route))
        except NotReadyError as exc:
            return self._refuse(503, str(exc))

    async def handle_probe(self, method: str, path: str, _: Headers) -> Reply:
        """Handle a request from a kubelet or metrics collector without a certificate; pod data is not accessible."""
        if method == "GET" and path in {"/healthz", "/readyz", "/metrics", "/version"}:
            return await self.handle(method, path, b"")
        return self._refuse(404, f"{method} {path[:200]} does not exist on this port")

    async def _get(self, path: str, route: str) -> Reply:
        inspects = route == "/inspect" or route.startswith("/inspect/")
        if inspects and (foreign := self._foreign.get(path.partition("/inspect")[0])):
            return self._inspect_foreign(foreign, route.removeprefix("/inspect").strip("/"))
        if (get := self._gets.get(route)) is not None:
            return await get()
        if route.startswith("/inspect/"):
            return self._inspect_node(route.removeprefix("/inspect/"))
        return self._refuse(404, f"{path} does not exist")

    async def _verb(
        self, method: str, path: str, route: str, body: bytes, post: Callable[[bytes], Awaitable[Reply]]
    ) -> Reply:
        if method != "POST":
            return self._refuse(405, f"{path} requires POST, not {method}")
        try:
            self._readiness.check_leading()
        except NotLeadingError as exc:
            # Close the connection, so that kube-scheduler opens a new connection to the leader.
            return Reply(503, self._encode({"error": str(exc)}), close=True)
        started = time.perf_counter()
        reply = await post(body)
        self._metrics.duration.labels(route[1:]).observe(time.perf_counter() - started)
        return reply

    def _refuse(self, status: int, message: str) -> Reply:
        return Reply(status, self._encode({"error": message}))

    async def _filter(self, body: bytes) -> Reply:
        try:
            self._readiness.check_current()
            result = await self._verbs.filter(self._args.decode(body))
        except (NotReadyError, PluginError) as exc:
            result = FilterResult(Error=str(exc))
        except (*UNREADABLE, BadArgsError) as exc:
            result = FilterResult(Error=f"accelkit cannot read the arguments of filter: {exc}")
        if result.Error:
            self._metrics.errors.labels("filter").inc()
        return Reply(200, self._encode(result))

    async def _prioritize(self, body: bytes) -> Reply:
        try:
            return Reply(200, self._encode(self._verbs.prioritize(self._args.decode(body))))
        except (*UNREADABLE, BadArgsError) as exc:
            self._metrics.errors.labels("prioritize").inc()
            return self._refuse(400, f"accelkit cannot read the arguments of prioritize: {exc}")
        except PluginError as exc:
            # kube-scheduler continues without these scores, and does not report the reason.
            self._repeats.warn(str(exc), str(exc))
            self._metrics.errors.labels("prioritize").inc()
            return self._refuse(500, str(exc))

    async def _bind(self, body: bytes) -> Reply:
        result = BindingResult()
        try:
            self._readiness.check_current()
            await self._binder.bind(self._binding.decode(body))
        except AccelkitError as exc:
            result = BindingResult(str(exc))
        except UNREADABLE as exc:
            result = BindingResult(f"accelkit cannot read the arguments of bind: {exc}")
        if result.Error:
            self._metrics.errors.labels("bind").inc()
        return Reply(200, self._encode(result))

    async def _preempt(self, body: bytes) -> Reply:
        # The result does not have an error field. For any status except 200, kube-scheduler does not evict pods, and
        # tries again.
        status = 400
        try:
            self._readiness.check_current()
            return Reply(200, self._encode(await self._preemption.preempt(self._preempted.decode(body))))
        except (*UNREADABLE, BadArgsError) as exc:
            sentence = f"accelkit cannot read the arguments of preempt: {exc}"
        except (NotReadyError, PluginError) as exc:
            status, sentence = 503, str(exc)
        self._metrics.errors.labels("preempt").inc()
        return self._refuse(status, sentence)

    async def _simulate(self, body: bytes) -> Reply:
        self._readiness.check_synced()
        if len(body) > MAX_QUESTION_BYTES:
            return self._refuse(413, f"the request body is longer than {MAX_QUESTION_BYTES} bytes")
        try:
            return Reply(200, await self._simulator.simulate(self._question.decode(body)))
        except (*UNREADABLE, BadArgsError) as exc:
            return self._refuse(400, f"accelkit cannot read the request body: {exc}")
        except PluginError as exc:
            return self._refuse(503, str(exc))

    async def _inspect(self) -> Reply:
        self._readiness.check_synced()
        nodes = []
        for number, entry in enumerate(self._ledger.list_nodes()):
            view = view_node(entry)
            if is_worth_showing(view):
                nodes.append(view)
            if number % _INSPECT_BATCH == 0:
                # Rendering takes a tenth of a second for a large cluster, and kube-scheduler must not wait for it.
                await asyncio.sleep(0)
        return Reply(200, self._encode(assemble(nodes, self._ledger.unit_bytes)))

    def _inspect_node(self, name: str) -> Reply:
        self._readiness.check_synced()
        entry = self._ledger.find_node(name)
        if entry is None:
            return self._refuse(404, f"node {name!r} is unknown; GET /inspect lists the nodes with cards")
        return Reply(200, self._encode(assemble([view_node(entry)], self._ledger.unit_bytes)))

    def _inspect_foreign(self, foreign: ForeignInspect, name: str) -> Reply:
        self._readiness.check_synced()
        if not name:
            return Reply(200, self._encode(foreign.view_nodes(self._ledger.list_nodes())))
        entry = self._ledger.find_node(name)
        if entry is None or entry.inventory is None:
            return self._refuse(404, foreign.describe_unknown_node(name))
        return Reply(200, self._encode(foreign.view_node(entry)))

    async def _version(self) -> Reply:
        return Reply(200, f"v{__version__}\n".encode(), "text/plain; charset=utf-8")

    async def _get_metrics(self) -> Reply:
        return Reply(200, self._metrics.render(), CONTENT_TYPE)

    async def _healthz(self) -> Reply:
        return Reply(200, b"ok\n", "text/plain; charset=utf-8")

    async def _readyz(self) -> Reply:
        status, text = 200, "ok"
        try:
            self._readiness.check_current()
        except NotReadyError as exc:
            status, text = 503, str(exc)
        return Reply(status, f"{text}\n".encode(), "text/plain; charset=utf-8")

    def _strip_prefix(self, path: str) -> str:
        for prefix in self._prefixes:
            if path.startswith(prefix + "/"):
                return path.removeprefix(prefix)
        return path
