"""filter and prioritize against a floor: the same HTTP server, the same decoding, the same reply encoded, no decision.

Ledger and floor live in one server process; the client alternates between them, so that the machine's noise meets both.
Each policy is asked what kube-scheduler asks for a pod: filter with all names, then prioritize with those that filter
left; the figure is that of both together. `installed` leaves as many nodes as an extender that is installed does, and
says nothing of the others; `all` leaves every node that fits, and says why the others do not. `same` asks always for
the same amount, `busy` does so after one node changed, as each bind changes one, and `shapes` asks for another amount
each time. `whole nodes` sends node objects instead of names; its floor is the same body decoded. `growth` is how much
longer both take for each node at the last size than at the first.
Prints JSON: milliseconds of a round trip at the median and the 99th percentile, CPU milliseconds of the server, and
ratios to the floor.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import uvloop
import world
from figures import Figure, report

from accelkit.extender.verbs import MOST_NODES
from accelkit.extender.wire import Args
from accelkit.model.pod import PodRef
from accelkit.placement.policies import Policy
from accelkit.serving.server import HttpServer, Reply
from accelkit.serving.tls import Listen

NODES = (1000, 5000, 20_000)
ROUNDS = 200
WARM_UP = 20
AIM_OF_RATIO = 1.5
# For clusters up to this size; beyond it time has to grow no faster than the cluster.
AIM_NODES = 5000
AIM_OF_GROWTH = 1.0
AIM_OF_WHOLE_NODES = 2.0
# As many as a body may hold, and kube-scheduler to an extender that keeps no nodes sends.
WHOLE_NODES = 1000
UNITS = 24
# How many nodes filter leaves, 0 for all that fit.
INSTALLED, ALL = "installed", "all"
WAYS = {INSTALLED: MOST_NODES, ALL: 0}


def serve(nodes: int, port: int) -> None:
    verbs = world.build_verbs(nodes, WAYS)
    decode, encode = msgspec.json.Decoder(Args).decode, msgspec.json.Encoder().encode
    names = [world.format_node_name(number) for number in range(nodes)]
    sample = decode(json.dumps({"Pod": world.build_pod(UNITS), "NodeNames": names}).encode())
    floor: dict[str, object] = {}
    for name, each in verbs.items():
        fitting = asyncio.run(each.filter(sample))
        floor[f"/floor/{name}/filter"] = fitting
        floor[f"/floor/{name}/prioritize"] = each.prioritize(Args(sample.Pod, None, fitting.NodeNames))
    anything = verbs[f"{ALL}/{Policy.BINPACK}"]
    ref, pending = PodRef("default", "churn", "churn"), anything._feed.read_pending(sample.Pod)  # noqa: SLF001

    assert pending is not None
    assert pending.request is not None
    request = pending.request

    async def handle(_method: str, path: str, body: bytes) -> Reply:
        if path == "/cpu":
            used = resource.getrusage(resource.RUSAGE_SELF)
            return Reply(200, encode(used.ru_utime + used.ru_stime))
        if path == "/churn":
            # One bind and one release: what happens between two filters on a busy cluster.
            anything._ledger.reserve(ref, names[1], request, anything.policy)  # noqa: SLF001
            anything._ledger.release(ref.uid)  # noqa: SLF001
            return Reply(200, b"{}")
        args = decode(body)
        if path == "/floor/decode":
            return Reply(200, b"{}")
        if path in floor:
            return Reply(200, encode(floor[path]))
        name, _, verb = path[1:].rpartition("/")
        requests = verbs[name]
        return Reply(200, encode(await requests.filter(args) if verb == "filter" else requests.prioritize(args)))

    async def run() -> None:
        await HttpServer(Listen("127.0.0.1", port), handle).run(asyncio.Event())

    uvloop.run(run())


class Client:
    def __init__(self, port: int) -> None:
        deadline = time.monotonic() + 600
        while True:
            try:
                self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                self.read_cpu_seconds()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def request(self, path: str, body: bytes) -> tuple[float, bytes]:
        """Return how long the answer took, in seconds, and the answer."""
        started = time.perf_counter()
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = self._connection.getresponse()
        data = reply.read()
        elapsed = time.perf_counter() - started
        if reply.status != 200 or b'"Error"' in data:
            raise RuntimeError(data[:300])
        return elapsed, data

    def post(self, path: str, body: bytes) -> float:
        """Return how long the answer took, in seconds."""
        return self.request(path, body)[0]

    def read_cpu_seconds(self) -> float:
        self._connection.request("POST", "/cpu", b"")
        return float(self._connection.getresponse().read())


@dataclass
class Taken:
    """Seconds of each request, and CPU seconds of the server for them together."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def show(self) -> dict[str, object]:
        ordered = sorted(self.seconds)
        return {
            "p50_ms": round(1000 * statistics.median(ordered), 3),
            "p99_ms": round(1000 * ordered[int(0.99 * len(ordered))], 3),
            "cpu_ms": round(1000 * self.cpu_seconds / len(ordered), 3),
        }


def measure_requests(
    client: Client, requests: list[tuple[str, list[bytes]]], rounds: int, before: Callable[[str], None]
) -> list[Taken]:
    """Post to each path in turn, `rounds` times after a warm-up, with the next body each time."""
    taken = [Taken() for _ in requests]
    for number in range(-WARM_UP, rounds):
        for each, (path, bodies) in zip(taken, requests, strict=True):
            before(path)
            cpu = client.read_cpu_seconds()
            seconds = client.post(path, bodies[number % len(bodies)])
            if number >= 0:
                each.seconds.append(seconds)
                each.cpu_seconds += client.read_cpu_seconds() - cpu
    return taken


def add(one: Taken, other: Taken) -> Taken:
    """Return what both took together, request by request."""
    seconds = [sum(pair) for pair in zip(one.seconds, other.seconds, strict=True)]
    return Taken(seconds, one.cpu_seconds + other.cpu_seconds)


def compare(taken: Taken, floor: Taken, aim: float | None) -> dict[str, object]:
    ratio = round(statistics.median(taken.seconds) / statistics.median(floor.seconds), 3)
    return {
        **taken.show(),
        "floor_p50_ms": round(1000 * statistics.median(floor.seconds), 3),
        "ratio_p50": ratio if aim is None else Figure(ratio, aim),
        "ratio_cpu": round(taken.cpu_seconds / floor.cpu_seconds, 3),
    }


def measure_kind(
    client: Client,
    name: str,
    bodies: tuple[list[bytes], list[bytes]],
    rounds: int,
    aim: float | None,
    *,
    busy: bool,
) -> dict[str, object]:
    """Ask filter and prioritize, WAY/POLICY, and their floor; where `busy`, a node changes before each filter."""
    own = f"/{name}/filter"

    def change(path: str) -> None:
        if busy and path == own:
            client.post("/churn", b"")

    filters, priorities = bodies
    requests = [(f"/floor/{name}/filter", filters), (f"/floor/{name}/prioritize", priorities)]
    requests += [(own, filters), (f"/{name}/prioritize", priorities)]
    floor_filter, floor_prioritize, filtered, prioritized = measure_requests(client, requests, rounds, change)
    return {
        "filter": compare(filtered, floor_filter, None),
        "prioritize": compare(prioritized, floor_prioritize, None),
        "together": compare(add(filtered, prioritized), add(floor_filter, floor_prioritize), aim),
    }


def measure_whole_nodes(client: Client, nodes: int, rounds: int) -> dict[str, object]:
    items = [world.build_node(number) for number in range(nodes)]
    body = json.dumps({"Pod": world.build_pod(UNITS), "Nodes": {"items": items}}, separators=(",", ":")).encode()
    requests = [("/floor/decode", [body]), (f"/{ALL}/{Policy.BINPACK}/filter", [body])]
    floor, taken = measure_requests(client, requests, rounds, lambda _: None)
    return {"nodes": nodes, "body_bytes": len(body), **compare(taken, floor, AIM_OF_WHOLE_NODES)}


def measure_at(nodes: int, rounds: int, *, whole: bool) -> dict[str, object]:
    port = world.find_free_port()
    process = multiprocessing.Process(target=serve, args=(nodes, port), daemon=True)
    process.start()
    try:
        client = Client(port)
        names = [world.format_node_name(number) for number in range(nodes)]
        aim = AIM_OF_RATIO if nodes <= AIM_NODES else None

        def build_bodies(requests: list[str], units: range) -> list[bytes]:
            return [json.dumps({"Pod": world.build_pod(each), "NodeNames": requests}).encode() for each in units]

        def build_both(name: str, units: range) -> tuple[list[bytes], list[bytes]]:
            filters = build_bodies(names, units)
            left = json.loads(client.request(f"/{name}/filter", filters[0])[1])["NodeNames"]
            return filters, build_bodies(left, units)

        results: dict[str, object] = {}
        same = range(UNITS, UNITS + 1)
        for way in WAYS:
            for policy in Policy:
                name = f"{way}/{policy}"
                bodies = build_both(name, same)
                results[name] = {
                    "same": measure_kind(client, name, bodies, rounds, aim, busy=False),
                    "busy": measure_kind(client, name, bodies, rounds, aim, busy=True),
                }
        name = f"{INSTALLED}/{Policy.BINPACK}"
        results["shapes"] = measure_kind(client, name, build_both(name, range(1, 57)), rounds, None, busy=True)
        if whole:
            results["whole nodes"] = measure_whole_nodes(client, min(nodes, WHOLE_NODES), max(1, rounds // 4))
        return results
    finally:
        process.terminate()
        process.join(10)


def measure_growth(first: tuple[int, dict[str, object]], last: tuple[int, dict[str, object]]) -> dict[str, object]:
    """Return how much longer a node takes at the last size than at the first, by policy.

    The figure is CPU time, since a busy machine makes longer requests wait more often.
    """
    (few, small), (many, large) = first, last

    def read(results: object, *keys: str) -> float:
        for key in keys:
            assert isinstance(results, dict)
            results = results[key]
        assert isinstance(results, float)
        return results

    def grow(name: str, value: str) -> float:
        before, after = (read(each, name, "busy", "together", value) for each in (small, large))
        return round(after / before / (many / few), 3)

    names = [f"{way}/{policy}" for way in WAYS for policy in Policy]
    results = {
        name: {"p50": grow(name, "p50_ms"), "cpu": Figure(grow(name, "cpu_ms"), AIM_OF_GROWTH)} for name in names
    }
    return {"from_nodes": few, "to_nodes": many, **results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="sizes of the cluster, at least 4 nodes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="requests of each kind")
    options = parser.parse_args()
    sizes = sorted(set(options.nodes))
    done = {nodes: measure_at(nodes, options.rounds, whole=nodes == sizes[0]) for nodes in sizes}
    results: dict[str, object] = {f"nodes={nodes}": each for nodes, each in done.items()}
    if len(sizes) > 1:
        results["growth"] = measure_growth((sizes[0], done[sizes[0]]), (sizes[-1], done[sizes[-1]]))
    report(results)


if __name__ == "__main__":
    main()
