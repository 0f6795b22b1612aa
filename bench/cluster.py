"""Bind and memory on a real API server, in a sandbox of its own.

Bind: pods are bound through the extender and, in turn, by bare Bindings with the same annotation; batches alternate so
that the machine's noise meets both. The ratio is the extender's rate over the bare one.
Memory: resident memory of the extender at 5,000 nodes and 20,000 pods, restarted so that it reads them all in one list.
Prints JSON. Takes some minutes, most of them to create the objects.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import world
from figures import Figure, report

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.inventory import INVENTORY_ANNOTATION, encode_inventory
from accelkit.sandbox.layout import SandboxPaths

CONCURRENCY = 8
AIM_OF_BIND_RATIO = 0.8
AIM_OF_MEMORY_MIB = 300
PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True)
class Size:
    """How much is bound and created: `batches` of `batch` pods each way, on the first `bind_nodes` of `nodes`."""

    nodes: int = 5000
    bind_nodes: int = 300
    batches: int = 10
    batch: int = 60


async def spread(work: Iterable[Awaitable[object]], at_once: int = 32) -> None:
    """Await all of `work`, so many at once."""
    gate = asyncio.Semaphore(at_once)

    async def one(item: Awaitable[object]) -> None:
        async with gate:
            await item

    async with asyncio.TaskGroup() as group:
        for item in work:
            group.create_task(one(item))


class World:
    def __init__(self, api: ApiClient, http: aiohttp.ClientSession, kubeconfig: Path, port: int) -> None:
        self.api, self.http, self.kubeconfig = api, http, kubeconfig
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.extender: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the extender and wait until it is ready."""
        command = [
            "extender",
            "--listen",
            f"127.0.0.1:{self.port}",
            "--plain-http",
            "--kubeconfig",
            str(self.kubeconfig),
        ]
        self.extender = subprocess.Popen([sys.executable, "-m", "accelkit", "--log-level", "error", *command])  # noqa: ASYNC220 - nothing else runs yet
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                async with self.http.get(f"{self.url}/readyz") as reply:
                    if reply.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
        raise TimeoutError("the extender is not ready")

    def stop(self) -> None:
        if self.extender is not None:
            self.extender.send_signal(signal.SIGTERM)
            self.extender.wait(20)

    def read_memory_mib(self) -> int:
        assert self.extender is not None
        pages = int(Path(f"/proc/{self.extender.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 2**20

    async def create_nodes(self, numbers: Iterable[int]) -> None:
        await spread(
            self.api.post(
                "/api/v1/nodes",
                {
                    "metadata": {
                        "name": world.format_node_name(number),
                        "annotations": {INVENTORY_ANNOTATION: encode_inventory(world.build_inventory(number))},
                    },
                    "spec": {"unschedulable": True},
                },
            )
            for number in numbers
        )

    async def create_pod(self, name: str, limits: dict[str, str] | None = None) -> str:
        body = world.build_pod(1)
        body["metadata"] = {"name": name}
        body["spec"] |= {"schedulerName": "none"}
        del body["spec"]["containers"][0]["volumeMounts"]
        if limits is not None:
            body["spec"]["containers"][0]["resources"] = {"limits": limits}
        body.pop("status")
        return str(json.loads(await self.api.post(PODS, body))["metadata"]["uid"])

    async def bind_bare(self, name: str, uid: str, node: str, assignment: Assignment) -> None:
        annotations = {ASSIGNMENT_ANNOTATION: encode_assignment(assignment)}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": "default", "uid": uid, "annotations": annotations},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.api.post(f"{PODS}/{name}/binding", body)

    async def bind_through(self, name: str, uid: str, node: str) -> None:
        args = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": node}
        async with self.http.post(f"{self.url}/bind", json=args) as reply:
            answer = await reply.json()
        if answer["Error"]:
            raise RuntimeError(answer["Error"])


async def time_batch(bind: Callable[[int], Awaitable[None]], batch: int) -> float:
    """Bind a batch, several at once; return binds per second."""
    started = time.perf_counter()
    await spread((bind(number) for number in range(batch)), CONCURRENCY)
    return batch / (time.perf_counter() - started)


async def measure_bind(here: World, size: Size) -> dict[str, object]:
    await here.create_nodes(range(size.bind_nodes))
    await here.start()
    rates: dict[str, list[float]] = {"bare": [], "extender": []}
    for batch in range(2 * size.batches):
        way = "bare" if batch % 2 else "extender"
        names = [f"bind-{batch}-{number}" for number in range(size.batch)]
        uids = dict(zip(names, await asyncio.gather(*map(here.create_pod, names)), strict=True))

        async def bind(number: int, batch: int = batch, way: str = way, uids: dict[str, str] = uids) -> None:
            name, node = f"bind-{batch}-{number}", (batch * size.batch + number) % size.bind_nodes
            share = Share(world.build_inventory(node).cards[0].id, world.GIB)
            if way == "bare":
                await here.bind_bare(name, uids[name], world.format_node_name(node), Assignment({"main": (share,)}))
            else:
                await here.bind_through(name, uids[name], world.format_node_name(node))

        rates[way].append(await time_batch(bind, size.batch))
    here.stop()
    bare, ours = (sorted(rates[way])[size.batches // 2] for way in ("bare", "extender"))
    return {
        "bare_per_second": round(bare, 1),
        "extender_per_second": round(ours, 1),
        "ratio": Figure(round(ours / bare, 3), AIM_OF_BIND_RATIO, at_least=True),
    }


async def measure_memory(here: World, size: Size) -> dict[str, object]:
    await here.create_nodes(range(size.bind_nodes, size.nodes))

    async def bound_pod(number: int, slot: int) -> None:
        name = f"pod-{number}-{slot}"
        uid = await here.create_pod(name, world.build_limits(number))
        await here.bind_bare(name, uid, world.format_node_name(number), world.build_assignments(number)[slot])

    await spread(bound_pod(number, slot) for number in range(size.nodes) for slot in range(world.PODS))
    started = time.perf_counter()
    await here.start()
    ready = time.perf_counter() - started
    after_list = here.read_memory_mib()
    body = {"Pod": world.build_pod(24), "NodeNames": [world.format_node_name(number) for number in range(size.nodes)]}
    for _ in range(20):
        for verb in ("filter", "prioritize"):
            async with here.http.post(f"{here.url}/{verb}", json=body) as reply:
                await reply.read()
    async with here.http.get(f"{here.url}/inspect") as reply:
        shown = await reply.json()
    after_use = here.read_memory_mib()
    here.stop()
    return {
        "nodes": size.nodes,
        "pods": len({share["uid"] for node in shown["nodes"] for card in node["cards"] for share in card["shares"]}),
        "ready_seconds": round(ready, 1),
        "resident_mib": after_list,
        "resident_mib_after_use": Figure(after_use, AIM_OF_MEMORY_MIB),
    }


async def run(paths: SandboxPaths, port: int, size: Size) -> dict[str, object]:
    kubeconfig = paths.build_kubeconfig_path("admin")
    async with ApiClient(load_connection(kubeconfig)) as api, aiohttp.ClientSession() as http:
        here = World(api, http, kubeconfig, port)
        try:
            return {"bind": await measure_bind(here, size), "memory": await measure_memory(here, size)}
        finally:
            here.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=Size.nodes, help="nodes of the cluster")
    parser.add_argument("--bind-nodes", type=int, default=Size.bind_nodes, help="nodes that pods are bound to")
    parser.add_argument("--batches", type=int, default=Size.batches, help="batches each way")
    parser.add_argument("--batch", type=int, default=Size.batch, help="pods in a batch")
    size = Size(**vars(parser.parse_args()))
    folder = Path(tempfile.mkdtemp(prefix="ak-"))
    nodes = folder / "nodes.yaml"
    nodes.write_text("nodes: [{name: node-1}]\n")
    root, port = folder / "s", world.find_free_port()
    command = [sys.executable, "-m", "accelkit", "sandbox"]
    try:
        up = ["up", "--root", str(root), "--nodes", str(nodes), "--extender-port", str(port)]
        subprocess.run([*command, *up], check=True, stdout=sys.stderr)
        report(asyncio.run(run(SandboxPaths(root), port, size)))
    finally:
        subprocess.run([*command, "down", "--root", str(root)], check=True, stdout=sys.stderr)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
