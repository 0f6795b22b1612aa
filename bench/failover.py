"""Seconds without a bind when the leading extender fails, with the real kube-scheduler and a steady stream of pods.

Two extenders compete for the Lease, each with a connection to the API server of its own that can be cut. kube-scheduler
asks the Service's address: a relay that leads each new connection to the port in the EndpointSlice, as kube-proxy does.
The ways to fail, each so many times:

    - `kill`: SIGKILL;
    - `stop`: SIGSTOP, and SIGCONT once the other one has bound pods;
    - `cut`: connections to the API server are reset and refused until the other one has bound pods;
    - `silent`: nothing passes on these connections any more, and they stay open.

The gap is the longest time between two binds from one second before the failure on, as a watch shows them. At the end
each pod is bound, and the cards of all pods add up to what they have; this is counted from the pods alone.

With `--memory 20`, cards are soon full, so that a reservation that outlives its term shows as a card over capacity.
`--ping` has kube-scheduler ping a silent connection after so many seconds, and give it up after as many more
(HTTP2_READ_IDLE_TIMEOUT_SECONDS, HTTP2_PING_TIMEOUT_SECONDS). Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import world
from bare_cluster import PODS, BareCluster, poll, run_cluster, running
from extenders import Credentials, build_scheduler_config, issue_credentials
from figures import Figure, report
from relay import Relay

from accelkit.errors import ApiError
from accelkit.kube.paths import build_collection_path, build_leases_path, build_object_path
from accelkit.model.assignment import decode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.sandbox import control_plane
from accelkit.sandbox.processes import Child

WAYS = ("kill", "stop", "cut", "silent")
AIM_OF_GAP_SECONDS = 5.0
NAME = "accelkit-extender"
LEASE = build_object_path(build_leases_path("default"), NAME)
SLICE = build_object_path(build_collection_path("discovery.k8s.io/v1", "endpointslices", "default"), NAME)
_SECONDS_BETWEEN_PODS = 0.1
_RECOVERY_SECONDS = 120.0


@dataclass
class Replica:
    """An extender of its own, with its way to the API server."""

    child: Child
    port: int
    relay: Relay
    name: str

    def signal(self, number: int) -> None:
        assert self.child.pid is not None
        os.kill(self.child.pid, number)


@dataclass
class Stream:
    """Pods that are created at a steady rate, and when each was bound."""

    memory: int
    created: set[str] = field(default_factory=set)
    bound: dict[str, float] = field(default_factory=dict)

    async def create(self, cluster: BareCluster) -> None:
        for number in itertools.count():
            name = f"stream-{number}"
            await cluster.create_pod(name, {"accelkit.io/memory": str(self.memory)}, scheduler="default-scheduler")
            self.created.add(name)
            await asyncio.sleep(_SECONDS_BETWEEN_PODS)

    async def watch(self, cluster: BareCluster) -> None:
        version = json.loads(await cluster.api.get(PODS, query={"limit": "1"}))["metadata"]["resourceVersion"]
        while True:
            query = {"watch": "1", "resourceVersion": version, "fieldSelector": "spec.nodeName!="}
            async with cluster.api.stream(PODS, query=query, silence_seconds=600) as lines:
                async for line in lines:
                    event = json.loads(line)
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.bound.setdefault(event["object"]["metadata"]["name"], time.monotonic())

    def measure_gap(self, failed_at: float) -> float:
        """Return the longest time between two binds, from a second before the failure on."""
        times = sorted(each for each in self.bound.values() if each > failed_at - 1)
        return max(later - former for former, later in itertools.pairwise(times))

    def count_since(self, moment: float) -> int:
        return sum(1 for each in self.bound.values() if each > moment)


class Bench:
    """A cluster with two extenders, a kube-scheduler and a stream of pods."""

    def __init__(self, cluster: BareCluster, credentials: Credentials, ping: int, memory: int) -> None:
        self._cluster, self._credentials, self._ping = cluster, credentials, ping
        self._numbers = itertools.count()
        self._leader_port: int | None = None
        self.replicas: list[Replica] = []
        self.stream = Stream(memory)
        self.settled: dict[str, object] = {}

    async def add_replica(self) -> None:
        """Start a replica, and return when it is ready."""
        relay = Relay(lambda: urlsplit(self._cluster.url).port)
        await relay.open()
        name, port, pki = f"extender-{next(self._numbers)}", world.find_free_port(), self._credentials.pki
        kubeconfig = self._cluster.paths.root / f"{name}.kubeconfig"
        text = self._cluster.kubeconfig.read_text()
        kubeconfig.write_text(text.replace(self._cluster.url, f"https://127.0.0.1:{relay.port}"))
        probes = world.find_free_port()
        command: list[str | Path] = [
            *(sys.executable, "-m", "accelkit", "extender", "--listen", f"127.0.0.1:{port}", "--wake"),
            *("--client-ca", pki / "ca.crt", "--tls-cert", pki / "server.crt", "--tls-key", pki / "server.key"),
            *("--kubeconfig", kubeconfig, "--probe-port", str(probes), "--lease", f"default/{NAME}"),
            # The relay goes by the port alone.
            *("--identity", name, "--service", NAME, "--advertise", "10.0.0.1"),
        ]
        child = self._cluster.make_child(name, command)
        await child.start()
        await child.wait_until_ready(control_plane.probe_http(f"http://127.0.0.1:{probes}/readyz"), seconds=60)
        self.replicas.append(Replica(child, port, relay, name))

    async def find_leader(self) -> Replica:
        """Return the replica that holds the Lease and is in the EndpointSlice."""
        found: list[Replica] = []

        async def known() -> bool:
            await self._read_leader()
            with suppress(ApiError):
                holder = json.loads(await self._cluster.api.get(LEASE))["spec"].get("holderIdentity")
                found[:] = [each for each in self.replicas if each.name == holder and each.port == self._leader_port]
            return bool(found)

        await poll(known, seconds=60, what="a leader")
        return found[0]

    async def follow_leader(self) -> None:
        """Keep the port to which new connections of the Service lead."""
        while True:
            await self._read_leader()
            await asyncio.sleep(0.05)

    async def _read_leader(self) -> None:
        with suppress(ApiError):
            self._leader_port = json.loads(await self._cluster.api.get(SLICE))["ports"][0]["port"]

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run all of it."""
        services = build_collection_path("v1", "services", "default")
        spec = {"ports": [{"name": "https", "port": 443}]}
        await self._cluster.api.post(services, {"metadata": {"name": NAME}, "spec": spec})
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._stop)
            await self.add_replica()
            await self.add_replica()
            service = Relay(lambda: self._leader_port)
            await service.open()
            stack.push_async_callback(service.cut)
            config = self._cluster.paths.root / "scheduler.yaml"
            config.write_text(
                build_scheduler_config(self._cluster, self._credentials, f"https://127.0.0.1:{service.port}")
            )
            port = world.find_free_port()
            arguments: list[str | Path] = [
                *(self._cluster.binaries.kube_scheduler, "--config", config, "--secure-port", str(port)),
                *("--bind-address", "127.0.0.1", "--authorization-always-allow-paths=/readyz"),
            ]
            names = ("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "HTTP2_PING_TIMEOUT_SECONDS")
            environ = dict.fromkeys(names, str(self._ping)) if self._ping else {}
            scheduler = self._cluster.make_child("kube-scheduler", arguments, **environ)
            await stack.enter_async_context(
                running(scheduler, control_plane.probe_http(f"https://127.0.0.1:{port}/readyz"))
            )
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(each)
                    for each in (
                        self.follow_leader(),
                        self.stream.watch(self._cluster),
                        self.stream.create(self._cluster),
                    )
                ]
                yield
                tasks[2].cancel()
                self.settled = await self._settle()
                for task in tasks:
                    task.cancel()

    async def fail(self, way: str) -> float:
        """Have the leader fail; return the seconds without a bind once all is as before."""
        await self._bind_some(time.monotonic())
        await asyncio.sleep(random.uniform(1, 3))  # noqa: S311 - not cryptography
        leader = await self.find_leader()
        failed_at = time.monotonic()
        match way:
            case "kill":
                leader.signal(signal.SIGKILL)
            case "stop":
                leader.signal(signal.SIGSTOP)
            case "cut":
                await leader.relay.cut()
            case "silent":
                leader.relay.hold()

        # What was on its way when it failed still arrives.
        await asyncio.sleep(0.5)
        await self._bind_some(time.monotonic())
        gap = self.stream.measure_gap(failed_at)
        match way:
            case "kill":
                await leader.child.stop()
                await leader.relay.cut()
                self.replicas.remove(leader)
                await self.add_replica()
            case "stop":
                leader.signal(signal.SIGCONT)
            case "cut":
                await leader.relay.open()
            case "silent":
                leader.relay.resume()
        return gap

    async def _settle(self) -> dict[str, object]:
        """Wait until all pods are bound; return what is wrong, counted from the pods alone."""
        stream = self.stream

        async def all_bound() -> bool:
            return stream.created <= stream.bound.keys()

        with suppress(TimeoutError):
            await poll(all_bound, seconds=60, what="all pods are bound")
        pods = json.loads(await self._cluster.api.get(PODS))["items"]
        return {
            "pods": len(pods),
            "pods_not_bound": Figure(sum(1 for pod in pods if not pod["spec"].get("nodeName")), 0),
            **count_wrong(pods),
        }

    async def _bind_some(self, since: float) -> None:
        async def bound() -> bool:
            return self.stream.count_since(since) >= 5

        await poll(bound, seconds=_RECOVERY_SECONDS, what="pods are bound again", interval=0.05)

    async def _stop(self) -> None:
        for each in self.replicas:
            each.relay.resume()
            await each.child.stop()
            await each.relay.cut()


def count_wrong(pods: list[dict[str, Any]]) -> dict[str, object]:
    """Return how many bound pods have no card, and how many cards are over capacity."""
    used, bare = Counter[str](), 0
    for pod in pods:
        text = (pod["metadata"].get("annotations") or {}).get(ASSIGNMENT_ANNOTATION)
        if not pod["spec"].get("nodeName"):
            continue
        if text is None:
            bare += 1
            continue
        for shares in decode_assignment(text).containers.values():
            for share in shares:
                used[share.card] += share.memory_bytes
    over = sum(1 for each in used.values() if each > 80 * world.GIB)
    return {"pods_without_a_card": Figure(bare, 0), "cards_over_capacity": Figure(over, 0)}


async def measure(ways: list[str], times: int, nodes: int, ping: int, memory: int) -> dict[str, object]:
    async with run_cluster() as cluster:
        await cluster.create_nodes(range(nodes))
        bench = Bench(cluster, await issue_credentials(cluster), ping, memory)
        results: dict[str, object] = {"kube_scheduler_pings_after_seconds": ping or "as it does by itself"}
        async with bench.run():
            for way in ways:
                gaps = []
                for _ in range(times):
                    gaps.append(await bench.fail(way))
                    print(f"{way}: {gaps[-1]:.2f} s", file=sys.stderr, flush=True)
                results[way] = {
                    "seconds": [round(each, 2) for each in gaps],
                    "median": round(statistics.median(gaps), 2),
                    "max": Figure(round(max(gaps), 2), AIM_OF_GAP_SECONDS),
                }
        results |= bench.settled
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="how the leader fails")
    parser.add_argument("--times", type=int, default=10, help="failures of each way")
    parser.add_argument("--nodes", type=int, default=60, help="nodes of 8 cards")
    parser.add_argument("--ping", type=int, default=0, help="seconds; 0 for what kube-scheduler does by itself")
    parser.add_argument("--memory", type=int, default=1, help="GiB of a card of 80 GiB that each pod requests")
    options = parser.parse_args()
    report(asyncio.run(measure(options.ways, options.times, options.nodes, options.ping, options.memory)))


if __name__ == "__main__":
    main()
