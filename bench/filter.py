"""filter and prioritize against a floor: the same HTTP server, the same decoding, the same reply encoded, no decision.

Ledger and floor live in one server process; the client alternates between them, so that the machine's noise meets both.
`shapes` asks for another amount each time, `same` always for the same one, `busy` changes a node before each request.
Prints JSON: milliseconds of a round trip at the median and the 99th percentile, CPU milliseconds of the server, and
ratios to the floor.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import multiprocessing
import resource
import statistics
import sys
import time

import msgspec
import uvloop
import world

from accelkit.extender.routes import Reply
from accelkit.extender.server import Listen, serve
from accelkit.extender.wire import Args
from accelkit.placement.holding import PodRef

ROUNDS = 200
WARM_UP = 20


def server(nodes: int, port: int) -> None:
    verbs = world.build(nodes)
    decode, encode = msgspec.json.Decoder(Args).decode, msgspec.json.Encoder().encode
    names = [world.node_name(number) for number in range(nodes)]
    sample = decode(json.dumps({"Pod": world.pod(24), "NodeNames": names}).encode())
    replies = {"/floor/filter": verbs.filter(sample), "/floor/prioritize": verbs.prioritize(sample)}
    ref, request = PodRef("default", "churn", "churn"), verbs._feed.request_of(sample.Pod)  # noqa: SLF001

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
        return Reply(200, encode(verbs.filter(args) if path == "/filter" else verbs.prioritize(args)))

    uvloop.run(serve(Listen("127.0.0.1", port), handle, asyncio.Event()))


class Client:
    def __init__(self, port: int) -> None:
        deadline = time.monotonic() + 120
        while True:
            try:
                self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                self.cpu()
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

    def cpu(self) -> float:
        self._connection.request("POST", "/cpu", b"")
        return float(self._connection.getresponse().read())


def measure(client: Client, verb: str, bodies: list[bytes], *, churn: bool) -> dict[str, float]:
    times: dict[str, list[float]] = {"/floor" + verb: [], verb: []}
    cpu = dict.fromkeys(times, 0.0)
    for number in range(WARM_UP + ROUNDS):
        for path, taken in times.items():
            if churn and path == verb:
                client.post("/churn", b"")
            before = client.cpu()
            elapsed = client.post(path, bodies[number % len(bodies)])
            if number >= WARM_UP:
                taken.append(elapsed)
                cpu[path] += client.cpu() - before
    floor, ours = times["/floor" + verb], times[verb]
    return {
        "p50_ms": round(1000 * statistics.median(ours), 3),
        "p99_ms": round(1000 * sorted(ours)[int(0.99 * len(ours))], 3),
        "floor_p50_ms": round(1000 * statistics.median(floor), 3),
        "cpu_ms": round(1000 * cpu[verb] / ROUNDS, 3),
        "ratio_p50": round(statistics.median(ours) / statistics.median(floor), 3),
        "ratio_cpu": round(cpu[verb] / cpu["/floor" + verb], 3),
    }


def main() -> None:
    result = {}
    for nodes, port in ((1000, 32911), (5000, 32915)):
        process = multiprocessing.Process(target=server, args=(nodes, port), daemon=True)
        process.start()
        client = Client(port)
        names = [world.node_name(number) for number in range(nodes)]
        same = [json.dumps({"Pod": world.pod(24), "NodeNames": names}).encode()]
        shapes = [json.dumps({"Pod": world.pod(1 + units), "NodeNames": names}).encode() for units in range(56)]
        result[f"nodes={nodes}"] = {
            "filter same": measure(client, "/filter", same, churn=False),
            "filter busy": measure(client, "/filter", same, churn=True),
            "filter shapes": measure(client, "/filter", shapes, churn=True),
            "prioritize busy": measure(client, "/prioritize", same, churn=True),
        }
        process.terminate()
        process.join(10)
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
