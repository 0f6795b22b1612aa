"""Binds on a real API server: their rate against bare Bindings, and 64 callers at once.

Bind: pods are bound through the extender over mutual TLS and, in turn, by bare Bindings with the same annotation, eight
at a time; batches alternate, and so does which comes first, so that the machine's noise meets both. The ratio is the
extender's rate over the bare one.
Crowd: 64 callers take pods from one queue; each asks filter, then bind on the first node that fits, again where another
was faster. There is one pod more for each caller than the nodes hold. Measured are the times of both verbs, the longest
of which is what the least fortunate caller waited, and whether ledger and pods agree card by card.
Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import world
from bare_cluster import PODS, BareCluster, read_cpu_seconds, run_cluster, spread
from extenders import OURS, Credentials, ExtenderClient, client_of, issue_credentials, running_extender
from figures import Figure, report
from ledger_check import count_miscounted, wait_until_empty

from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION

CONCURRENCY = 8
CALLERS = 64
AIM_OF_BIND_RATIO = 0.8
# kube-scheduler gives up on a call after 10 s, as it is installed.
AIM_OF_LONGEST_MS = 10_000
AIM_OF_MISCOUNTED = 0
UNITS = 24
# So many shares of 24 GiB fit a card of 80.
SHARES_OF_A_CARD = 3


@dataclass(frozen=True)
class Size:
    """How much is bound: `batches` of `batch` pods each way on `bind_nodes`, then by the crowd on `crowd_nodes`."""

    bind_nodes: int = 300
    batches: int = 10
    batch: int = 60
    crowd_nodes: int = 40


async def time_batch(bind: Callable[[int], Awaitable[None]], batch: int) -> float:
    """Bind a batch, several at once; return binds per second."""
    started = time.perf_counter()
    await spread((bind(number) for number in range(batch)), CONCURRENCY)
    return batch / (time.perf_counter() - started)


async def bind_bare(cluster: BareCluster, name: str, uid: str, number: int) -> None:
    """Write a Binding to the node of this number with an assignment, as the extender does."""
    share = Share(world.build_inventory(number).cards[0].id, world.GIB)
    annotations = {ASSIGNMENT_ANNOTATION: encode_assignment(Assignment({"main": (share,)}))}
    metadata = {"name": name, "namespace": "default", "uid": uid, "annotations": annotations}
    target = {"apiVersion": "v1", "kind": "Node", "name": world.format_node_name(number)}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    await cluster.api.post(f"{PODS}/{name}/binding", body)


async def bind_through(client: ExtenderClient, name: str, uid: str, node: str) -> str:
    """Have the extender bind a pod; return its error, empty where it is bound."""
    args = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": node}
    answer = json.loads(await client.post("bind", json.dumps(args).encode()))
    return str(answer.get("Error", ""))


async def measure_bind(cluster: BareCluster, credentials: Credentials, size: Size) -> dict[str, object]:
    rates: dict[str, list[float]] = {"extender": [], "bare": []}
    cpu_seconds = 0.0
    async with AsyncExitStack() as stack:
        extender = await stack.enter_async_context(running_extender(cluster, credentials, OURS))
        client = await stack.enter_async_context(client_of(extender, credentials))
        for batch, turn in itertools.product(range(size.batches), range(2)):
            way = ("extender", "bare")[(batch + turn) % 2]
            names = [f"{way}-{batch}-{number}" for number in range(size.batch)]
            uids = await asyncio.gather(*(cluster.create_pod(name, {"accelkit.io/memory": "1"}) for name in names))

            async def bind(number: int, batch: int = batch, way: str = way, uids: list[str] = uids) -> None:
                name, node = f"{way}-{batch}-{number}", (batch * size.batch + number) % size.bind_nodes
                if way == "bare":
                    await bind_bare(cluster, name, uids[number], node)
                elif error := await bind_through(client, name, uids[number], world.format_node_name(node)):
                    raise RuntimeError(error)

            before = read_cpu_seconds(extender.child)
            rates[way].append(await time_batch(bind, size.batch))
            if way == "extender":
                cpu_seconds += read_cpu_seconds(extender.child) - before
    await cluster.delete_pods()
    bare, ours = (statistics.median(rates[way]) for way in ("bare", "extender"))
    pairs = [mine / its for mine, its in zip(rates["extender"], rates["bare"], strict=True)]
    return {
        "bare_per_second": round(bare, 1),
        "extender_per_second": round(ours, 1),
        "ratio": Figure(round(ours / bare, 3), AIM_OF_BIND_RATIO, at_least=True),
        "of_a_batch": [round(min(pairs), 3), round(max(pairs), 3)],
        "extender_cpu_ms": round(1000 * cpu_seconds / (size.batches * size.batch), 3),
    }


class Crowd:
    """Callers that take pods from one queue and bind them where filter says.

    Args:
        client: connects to the extender.
        pods: name and UID of each pod.
        nodes: names of the nodes.
    """

    def __init__(self, client: ExtenderClient, pods: list[tuple[str, str]], nodes: list[str]) -> None:
        self._client, self._pods, self._nodes = client, iter(pods), nodes
        self._spares = itertools.count()
        self.times: dict[str, list[float]] = {"filter": [], "bind": []}
        self.bound = 0
        self.raced = 0
        self.answered: list[int] = []

    async def call(self) -> None:
        """Be one caller, until no pod is left."""
        caller = len(self.answered)
        self.answered.append(0)
        for name, uid in self._pods:
            while fitting := await self._filter(name, uid):
                # Not all at the first node, as scores of a scheduler would spread them too.
                node = fitting[next(self._spares) % len(fitting)]
                started = time.perf_counter()
                error = await bind_through(self._client, name, uid, node)
                self.times["bind"].append(time.perf_counter() - started)
                self.answered[caller] += 1
                if not error:
                    self.bound += 1
                    break
                self.raced += 1

    async def _filter(self, name: str, uid: str) -> list[str]:
        pod = world.build_pod(UNITS, uid=uid)
        pod["metadata"]["name"] = name
        body = json.dumps({"Pod": pod, "NodeNames": self._nodes}).encode()
        started = time.perf_counter()
        answer = json.loads(await self._client.post("filter", body))
        self.times["filter"].append(time.perf_counter() - started)
        if answer.get("Error"):
            raise RuntimeError(answer["Error"])
        return list(answer.get("NodeNames") or ())


async def measure_crowd(cluster: BareCluster, credentials: Credentials, size: Size) -> dict[str, object]:
    nodes = [world.format_node_name(number) for number in range(size.crowd_nodes)]
    room = len(nodes) * world.CARDS * SHARES_OF_A_CARD
    async with AsyncExitStack() as stack:
        extender = await stack.enter_async_context(running_extender(cluster, credentials, OURS))
        client = await stack.enter_async_context(client_of(extender, credentials))
        await wait_until_empty(client)
        names = [f"crowd-{number}" for number in range(room + CALLERS)]
        limits = {"accelkit.io/memory": str(UNITS)}
        uids = await asyncio.gather(*(cluster.create_pod(name, limits) for name in names))
        crowd = Crowd(client, list(zip(names, uids, strict=True)), nodes)
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(crowd.call())
        seconds = time.perf_counter() - started
        miscounted = await count_miscounted(cluster, client, crowd.bound)
    await cluster.delete_pods()
    return {
        "callers": CALLERS,
        "pods": len(names),
        "room": room,
        "bound": Figure(crowd.bound, room, at_least=True),
        "refused_binds": crowd.raced,
        "binds_of_a_caller": [min(crowd.answered), max(crowd.answered)],
        "binds_per_second": round(crowd.bound / seconds, 1),
        **{verb: print_times(times) for verb, times in crowd.times.items()},
        "miscounted_cards": Figure(miscounted, AIM_OF_MISCOUNTED),
    }


def print_times(seconds: list[float]) -> dict[str, object]:
    ordered = sorted(seconds)
    return {
        "p50_ms": round(1000 * statistics.median(ordered), 1),
        "p99_ms": round(1000 * ordered[int(0.99 * len(ordered))], 1),
        "longest_ms": Figure(round(1000 * ordered[-1], 1), AIM_OF_LONGEST_MS),
    }


async def measure(size: Size) -> dict[str, object]:
    async with run_cluster() as cluster:
        await cluster.create_nodes(range(max(size.bind_nodes, size.crowd_nodes)), unschedulable=True)
        credentials = await issue_credentials(cluster)
        bound = await measure_bind(cluster, credentials, size)
        return {"bind": bound, "crowd": await measure_crowd(cluster, credentials, size)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bind-nodes", type=int, default=Size.bind_nodes, help="nodes that pods are bound to")
    parser.add_argument("--batches", type=int, default=Size.batches, help="batches each way")
    parser.add_argument("--batch", type=int, default=Size.batch, help="pods in a batch")
    parser.add_argument("--crowd-nodes", type=int, default=Size.crowd_nodes, help="nodes that 64 callers fill")
    report(asyncio.run(measure(Size(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()
