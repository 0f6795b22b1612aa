"""A pod group through the real kube-scheduler: seconds from its last pod to its last bind, beside the same pods alone.

Nodes of 8 cards, kept ready by kwok where it is there; each pod asks for nine tenths of one. The ways take turns on one
cluster, with one kube-scheduler and one extender as it is installed, with pod groups on:

- `gated`: the pods are a group under the gate `accelkit.io/pod-group`, and none can be bound before the last is there;
- `alone`: the same pods without group and gate, which are bound as they come.

Prints JSON: of each round the seconds from the last pod's creation, and from the first's, to the last bind.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

import world
from bare_cluster import PODS, BareCluster, find_kwok, kubelets, run_cluster, running, spread
from extenders import OURS, build_scheduler_config, client_of, issue_credentials, running_extender
from figures import Figure, report
from ledger_check import count_miscounted, wait_until_empty

from accelkit.sandbox import control_plane

GATED, ALONE = "gated", "alone"
# One pod to a card of 80 GiB.
LIMITS = {"accelkit.io/memory": "72"}
# What KAI's own scale test shows for a gang of 512 on 500 nodes, on another machine.
AIM_SECONDS = 49.0


@dataclass(frozen=True)
class Round:
    """One way, once: seconds to the last bind, from the last pod's creation and from the first's."""

    from_last: float
    from_first: float


async def create_pod(cluster: BareCluster, name: str, group: str, size: int) -> None:
    """Create a pod for kube-scheduler, of a gated group where one is named."""
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": LIMITS}
    keys = "pod-group.scheduling.sigs.k8s.io"
    labels = {f"{keys}/name": group, f"{keys}/min-available": str(size)} if group else {}
    gates = {"schedulingGates": [{"name": "accelkit.io/pod-group"}]} if group else {}
    spec = {"containers": [{"name": "main", "image": "i", "resources": resources}], **gates}
    await cluster.api.post(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec})


async def run_round(cluster: BareCluster, way: str, prefix: str, pods: int) -> Round:
    """Create pods, and wait until all are bound."""
    opened = asyncio.Event()
    waiting = asyncio.create_task(cluster.watch_binds(pods, opened))
    try:
        await opened.wait()
        group, first = prefix if way == GATED else "", time.monotonic()
        await spread(create_pod(cluster, f"{prefix}-{number}", group, pods) for number in range(pods))
        last = time.monotonic()
        async with asyncio.timeout(120 + pods):
            ended = (await waiting)[-1]
    finally:
        waiting.cancel()
    return Round(ended - last, ended - first)


def summarise(rounds: list[Round]) -> dict[str, object]:
    """Return the figures of one way."""
    from_last = [round(each.from_last, 2) for each in rounds]
    return {
        "seconds_from_last_pod_to_last_bind": from_last,
        "seconds_from_first_pod_to_last_bind": [round(each.from_first, 2) for each in rounds],
        "median": round(statistics.median(from_last), 2),
    }


async def measure(nodes: int, pods: int, rounds: int) -> dict[str, object]:
    done: dict[str, list[Round]] = {GATED: [], ALONE: []}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(run_cluster())
        await cluster.create_nodes(range(nodes))
        program = find_kwok(cluster)
        await stack.enter_async_context(kubelets(cluster, program, nodes))
        credentials = await issue_credentials(cluster)
        extender = await stack.enter_async_context(running_extender(cluster, credentials, OURS, "--pod-groups"))
        client = await stack.enter_async_context(client_of(extender, credentials))
        port, file = world.find_free_port(), cluster.paths.scheduler_config
        file.write_text(build_scheduler_config(cluster, credentials, extender.url))
        options = (f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={port}")
        scheduler = cluster.make_child("kube-scheduler", [cluster.binaries.kube_scheduler, *options])
        ready = control_plane.probe_http(f"https://127.0.0.1:{port}/readyz")
        await stack.enter_async_context(running(scheduler, ready))
        for number in range(rounds):
            for way in (GATED, ALONE) if number % 2 == 0 else (ALONE, GATED):
                done[way].append(await run_round(cluster, way, f"{way}-{number}", pods))
                if wrong := await count_miscounted(cluster, client, pods):
                    raise RuntimeError(f"the ledger is wrong on {wrong} cards")
                await cluster.delete_pods()
                await wait_until_empty(client)
    longest = Figure(round(max(each.from_last for each in done[GATED]), 2), AIM_SECONDS)
    return {
        "nodes": nodes,
        "pods": pods,
        "kubelets": "kwok" if program else "none",
        **{way: summarise(each) for way, each in done.items()},
        "longest_of_gated_seconds": longest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500, help="nodes of 8 cards")
    parser.add_argument("--pods", type=int, default=512, help="pods of the group")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report(asyncio.run(measure(options.nodes, options.pods, options.rounds)))


if __name__ == "__main__":
    main()
