"""Pods per second through the real kube-scheduler: without an extender, with one that decides nothing, and with ours.

Nodes of 8 cards; each pod asks for 24 GiB. In each round the ways follow each other in another order, each with a new
kube-scheduler and, where it has one, a new extender: filter, prioritize and bind over mutual TLS by node names. All
pods are there before the scheduler starts. The rate is that of the last nine tenths of the binds, as the API server
shows them, so that no start counts. Between two ways all pods are deleted, and kwok is done with them; our ledger is
checked, and then empty.

`--pending` has so many pods wait at once, for `null` and `ours`, and measures the time to the last bind.

Prints JSON: rates of each round, CPU milliseconds of each process for a pod, and ratios with their aims.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import world
from bare_cluster import BareCluster, find_kwok, kubelets, read_cpu_seconds, run_cluster, running, spread
from extenders import (
    NONE,
    NULL,
    NULL_OPTIONS,
    OURS,
    WAYS,
    Credentials,
    build_null_extender,
    build_scheduler_config,
    client_of,
    issue_credentials,
    running_extender,
)
from figures import Figure, report
from ledger_check import count_miscounted, wait_until_empty

from accelkit.sandbox import control_plane
from accelkit.sandbox.processes import Child, read_tail

UNITS = {"accelkit.io/memory": "24"}
AIM_OF_OURS_TO_NULL = 0.95
# What the null extender reached of a scheduler without one when the aim was set.
AIM_OF_OURS_TO_NONE = 0.76
# This part of the binds is over before the rate is taken.
_WARM_UP = 0.1


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    nodes: int
    pods: int
    rounds: int
    pending: int
    pending_rounds: int


@dataclass(frozen=True)
class Round:
    """One way, once.

    Attributes:
        rate: pods per second.
        seconds: from the start of kube-scheduler to the last bind.
        cpu_ms: of each process for a pod, from then to then.
    """

    rate: float
    seconds: float
    cpu_ms: dict[str, float]


class Bench:
    """The rounds on one cluster."""

    def __init__(self, cluster: BareCluster, credentials: Credentials) -> None:
        self._cluster, self._credentials = cluster, credentials
        self._numbers = itertools.count()

    async def run_round(self, way: str, pods: int) -> Round:
        """Have a new kube-scheduler bind so many pods."""
        cluster, credentials = self._cluster, self._credentials
        prefix = f"{way}-{next(self._numbers)}"
        async with AsyncExitStack() as stack:
            extender, client = None, None
            if way != NONE:
                extender = await stack.enter_async_context(running_extender(cluster, credentials, way))
            if extender is not None and way == OURS:
                client = await stack.enter_async_context(client_of(extender, credentials))
                await wait_until_empty(client)
            await spread(
                cluster.create_pod(f"{prefix}-{number}", UNITS, scheduler="default-scheduler") for number in range(pods)
            )
            await cluster.wait_until_quiet()
            config = build_scheduler_config(cluster, credentials, extender.url if extender else None)
            processes = {**cluster.servers, **({"extender": extender.child} if extender else {})}
            done = await self._schedule(config, processes, pods)
            if client is not None and (wrong := await count_miscounted(cluster, client, pods)):
                raise RuntimeError(f"the ledger is wrong on {wrong} cards")
            await cluster.delete_pods()
            if client is not None:
                await wait_until_empty(client)
        print(f"{prefix}: {done.rate:.1f} pods/s, {done.seconds:.1f} s", file=sys.stderr)
        return done

    async def _schedule(self, config: str, processes: dict[str, Child], pods: int) -> Round:
        cluster, port = self._cluster, world.find_free_port()
        file = cluster.paths.scheduler_config
        file.write_text(config)
        options = (f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={port}")
        scheduler = cluster.make_child("kube-scheduler", [cluster.binaries.kube_scheduler, *options])
        opened = asyncio.Event()
        watching = asyncio.create_task(cluster.watch_binds(pods, opened))
        await opened.wait()
        before = {name: read_cpu_seconds(child) for name, child in processes.items()}
        started = time.monotonic()
        try:
            async with running(scheduler, control_plane.probe_http(f"https://127.0.0.1:{port}/readyz")):
                try:
                    async with asyncio.timeout(120 + pods):
                        times = await watching
                except TimeoutError as exc:
                    log = read_tail(scheduler.log)
                    raise TimeoutError(f"kube-scheduler has not bound {pods} pods in time:\n{log}") from exc
                used = {name: read_cpu_seconds(child) - before[name] for name, child in processes.items()}
                used["kube-scheduler"] = read_cpu_seconds(scheduler)
        finally:
            watching.cancel()
        first = int(_WARM_UP * pods)
        rate = (pods - 1 - first) / max(times[-1] - times[first], 1e-9)
        return Round(rate, times[-1] - started, {name: 1000 * each / pods for name, each in used.items()})

    async def run_rounds(self, ways: Sequence[str], pods: int, rounds: int) -> dict[str, list[Round]]:
        """Run every way in each round."""
        done: dict[str, list[Round]] = {way: [] for way in ways}
        for number in range(rounds):
            for way in order(ways, number):
                done[way].append(await self.run_round(way, pods))
        return done


def order(ways: Sequence[str], number: int) -> list[str]:
    """Return the ways in the order of a round: each begins as often as the others, and follows each of them."""
    turn = number % len(ways)
    turned = [*ways[turn:], *ways[:turn]]
    return turned[::-1] if number // len(ways) % 2 else turned


def summarise(done: dict[str, list[Round]], unit: str, value: Callable[[Round], float]) -> dict[str, object]:
    """Return the values of each way by round, with median and spread, and the CPU of a pod."""
    results: dict[str, object] = {}
    for way, rounds in done.items():
        values = [value(each) for each in rounds]
        cpu = {name: statistics.median(each.cpu_ms[name] for each in rounds) for name in sorted(rounds[0].cpu_ms)}
        results[way] = {
            unit: [round(each, 1) for each in values],
            "median": round(statistics.median(values), 1),
            "min": round(min(values), 1),
            "max": round(max(values), 1),
            "cpu_ms_per_pod": {name: round(each, 2) for name, each in cpu.items()},
        }
    return results


def compare(done: dict[str, list[Round]], way: str, other: str, aim: float | None) -> dict[str, object]:
    """Return the ratio of the medians of two ways, and the least and the greatest ratio of a round."""
    pairs = [each.rate / its.rate for each, its in zip(done[way], done[other], strict=True)]
    ratio = statistics.median(each.rate for each in done[way]) / statistics.median(each.rate for each in done[other])
    return {
        "ratio": round(ratio, 3) if aim is None else Figure(round(ratio, 3), aim, at_least=True),
        "of_a_round": [round(min(pairs), 3), round(max(pairs), 3)],
    }


def compare_all(done: dict[str, list[Round]]) -> dict[str, object]:
    """Return the ratios of those ways that were measured."""
    aims = {(OURS, NULL): AIM_OF_OURS_TO_NULL, (OURS, NONE): AIM_OF_OURS_TO_NONE}
    pairs = [(OURS, NULL), *((way, NONE) for way in (*NULL_OPTIONS, OURS))]
    pairs += [(way, NULL) for way in NULL_OPTIONS if way != NULL]
    return {
        f"{way}/{other}": compare(done, way, other, aims.get((way, other)))
        for way, other in pairs
        if way in done and other in done
    }


async def measure(size: Size, ways: Sequence[str], *, kwok: bool) -> dict[str, object]:
    if set(ways) & NULL_OPTIONS.keys():
        # Before anything else: without Go nothing can be compared.
        await asyncio.to_thread(build_null_extender)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(run_cluster())
        await cluster.create_nodes(range(size.nodes))
        program = find_kwok(cluster) if kwok else None
        await stack.enter_async_context(kubelets(cluster, program, size.nodes))
        bench = Bench(cluster, await issue_credentials(cluster))
        results: dict[str, object] = {"nodes": size.nodes, "kubelets": "kwok" if program else "none"}
        if size.rounds:
            done = await bench.run_rounds(ways, size.pods, size.rounds)
            throughput = summarise(done, "pods_per_second", lambda each: each.rate)
            results |= {"pods": size.pods, **throughput, **compare_all(done)}
        if size.pending and size.pending_rounds:
            done = await bench.run_rounds([NULL, OURS], size.pending, size.pending_rounds)
            results["pending"] = print_pending(done, size.pending)
    return results


def print_pending(done: dict[str, list[Round]], pods: int) -> dict[str, object]:
    """Return the times to the last bind, and the null extender's as a part of ours."""
    null, ours = (statistics.median(each.seconds for each in done[way]) for way in (NULL, OURS))
    results = summarise(done, "seconds_to_last_bind", lambda each: each.seconds)
    return {"pods": pods, **results, "null/ours": Figure(round(null / ours, 3), AIM_OF_OURS_TO_NULL, at_least=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of 8 cards")
    # Of fewer, kwok leaves another part of its work for later beside each way, and that is not in the rate.
    parser.add_argument("--pods", type=int, default=4000, help="pods of each way in a round, at least 2")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[NONE, NULL, OURS], help="what is compared")
    parser.add_argument("--pending", type=int, default=10_000, help="pods that wait at once; 0 leaves this part out")
    parser.add_argument("--pending-rounds", type=int, default=2)
    parser.add_argument("--no-kwok", action="store_true", help="nodes are objects alone, even where kwok is installed")
    options = parser.parse_args()
    size = Size(options.nodes, options.pods, options.rounds, options.pending, options.pending_rounds)
    report(asyncio.run(measure(size, options.ways, kwok=not options.no_kwok)))


if __name__ == "__main__":
    main()
