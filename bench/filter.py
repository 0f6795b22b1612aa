"""filter and prioritize against a floor: the same HTTP server, the same decoding, the same reply encoded, no decision.

Ledger and floor live in one server process; the client alternates between them, so that the machine's noise meets both.
`shapes` asks for another amount each time, `same` always for the same one, `busy` changes a node before each request,
and so does `linked`, for a pod of the policy topology.
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

import msgspec
import uvloop
import world
from figures import Figure, report

from accelkit.extender.wire import Args
from accelkit.model.pod import PodRef
from accelkit.serving.server import HttpServer, Reply
from accelkit.serving.tls import Listen

NODES = (1000, 5000)
ROUNDS = 200
WARM_UP = 20
AIM_OF_RATIO = 1.5


def serve(nodes: int, port: int) -> None:
    verbs = world.build_verbs(nodes)
    decode, encode = msgspec.json.Decoder(Args).decode, msgspec.json.Encoder().encode
    names = [world.format_node_name(number) for number in range(nodes)]
    sample = decode(json.dumps({"Pod": world.build_pod(24), "NodeNames": names}).encode())
    replies = {"/floor/filter": asyncio.run(verbs.filter(sample)), "/floor/prioritize": verbs.prioritize(sample)}
    ref, pending = PodRef("default", "churn", "churn"), verbs._feed.read_pending(sample.Pod)  # noqa: SLF001

    assert pending is not None
    assert pending.request is not None
    request = pending.request

    async def handle(_method: str, path: str, body: bytes) -> Reply:
        if path == "/cpu":
            used = resource.getrusage(resource.RUSAGE_SELF)
            return Reply(200, encode(used.ru_utime + used.ru_stime))
        if path == "/churn":
            # One bind and one release: what happens between two filters on a busy cluster.
            verbs._ledger.reserve(ref, names[1], request, verbs.policy)  # noqa: SLF001
            verbs._ledger.release(ref.uid)  # noqa: SLF001
            return Reply(200, b"{}")
        args = decode(body)
        if path in replies:
            return Reply(200, encode(replies[path]))
        return Reply(200, encode(await verbs.filter(args) if path == "/filter" else verbs.prioritize(args)))

    async def run() -> None:
        await HttpServer(Listen("127.0.0.1", port), handle).run(asyncio.Event())

    uvloop.run(run())


class Client:
    def __init__(self, port: int) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                self.read_cpu_seconds()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def post(self, path: str, body: bytes) -> float:
        started = time.perf_counter()
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        reply = self._connection.getresponse()
        data = reply.read()
        elapsed = time.perf_counter() - started
        if reply.status != 200 or b'"Error"' in data:
            raise RuntimeError(data[:300])
        return elapsed

    def read_cpu_seconds(self) -> float:
        self._connection.request("POST", "/cpu", b"")
        return float(self._connection.getresponse().read())


def measure(client: Client, verb: str, bodies: list[bytes], *, churn: bool, rounds: int) -> dict[str, object]:
    times: dict[str, list[float]] = {"/floor" + verb: [], verb: []}
    cpu = dict.fromkeys(times, 0.0)
    for number in range(WARM_UP + rounds):
        for path, taken in times.items():
            if churn and path == verb:
                client.post("/churn", b"")
            before = client.read_cpu_seconds()
            elapsed = client.post(path, bodies[number % len(bodies)])
            if number >= WARM_UP:
                taken.append(elapsed)
                cpu[path] += client.read_cpu_seconds() - before
    floor, ours = times["/floor" + verb], times[verb]
    return {
        "p50_ms": round(1000 * statistics.median(ours), 3),
        "p99_ms": round(1000 * sorted(ours)[int(0.99 * len(ours))], 3),
        "floor_p50_ms": round(1000 * statistics.median(floor), 3),
        "cpu_ms": round(1000 * cpu[verb] / rounds, 3),
        "ratio_p50": Figure(round(statistics.median(ours) / statistics.median(floor), 3), AIM_OF_RATIO),
        "ratio_cpu": round(cpu[verb] / cpu["/floor" + verb], 3),
    }


def measure_at(nodes: int, rounds: int) -> dict[str, object]:
    port = world.find_free_port()
    process = multiprocessing.Process(target=serve, args=(nodes, port), daemon=True)
    process.start()
    try:
        client = Client(port)
        names = [world.format_node_name(number) for number in range(nodes)]
        same = [json.dumps({"Pod": world.build_pod(24), "NodeNames": names}).encode()]
        shapes = [json.dumps({"Pod": world.build_pod(1 + units), "NodeNames": names}).encode() for units in range(56)]
        linked = [json.dumps({"Pod": world.build_pod(24, policy="topology"), "NodeNames": names}).encode()]
        return {
            "filter same": measure(client, "/filter", same, churn=False, rounds=rounds),
            "filter busy": measure(client, "/filter", same, churn=True, rounds=rounds),
            "filter shapes": measure(client, "/filter", shapes, churn=True, rounds=rounds),
            "prioritize busy": measure(client, "/prioritize", same, churn=True, rounds=rounds),
            "prioritize linked": measure(client, "/prioritize", linked, churn=True, rounds=rounds),
        }
    finally:
        process.terminate()
        process.join(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES, help="sizes of the cluster, at least 2 nodes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="requests of each kind")
    options = parser.parse_args()
    report({f"nodes={nodes}": measure_at(nodes, options.rounds) for nodes in options.nodes})


if __name__ == "__main__":
    main()
