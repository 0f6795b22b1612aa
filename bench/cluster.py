"""Bind and memory on a real API server, in a sandbox of its own.

Bind: pods are bound through the extender and, in turn, by bare Bindings with the same annotation; batches alternate so
that the machine's noise meets both. The ratio is the extender's rate over the bare one.
Memory: resident memory of the extender at 5,000 nodes and 20,000 pods, restarted so that it reads them all in one list.
Prints JSON. Takes some minutes, most of them to create the objects.
"""

from __future__ import annotations

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
from pathlib import Path

import aiohttp
import world

from accelkit.cluster.client import ApiClient
from accelkit.cluster.connection import load_connection
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.inventory import INVENTORY_ANNOTATION, encode_inventory
from accelkit.sandbox.layout import SandboxPaths

BATCHES, BATCH, CONCURRENCY = 10, 60, 8
NODES, BIND_NODES = 5000, 300
PODS = "/api/v1/namespaces/default/pods"
PORT = 32921
URL = f"http://127.0.0.1:{PORT}"


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
    def __init__(self, api: ApiClient, http: aiohttp.ClientSession, kubeconfig: Path) -> None:
        self.api, self.http, self.kubeconfig = api, http, kubeconfig
        self.extender: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start the extender and wait until it is ready."""
        command = ["extender", "--listen", f"127.0.0.1:{PORT}", "--plain-http", "--kubeconfig", str(self.kubeconfig)]
        self.extender = subprocess.Popen([sys.executable, "-m", "accelkit", "--log-level", "error", *command])  # noqa: ASYNC220 - nothing else runs yet
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                async with self.http.get(f"{URL}/readyz") as reply:
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

    def memory_mib(self) -> int:
        pages = int(Path(f"/proc/{self.extender.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") // 2**20

    async def create_nodes(self, numbers: Iterable[int]) -> None:
        await spread(
            self.api.post(
                "/api/v1/nodes",
                {
                    "metadata": {
                        "name": world.node_name(number),
                        "annotations": {INVENTORY_ANNOTATION: encode_inventory(world.inventory(number))},
                    },
                    "spec": {"unschedulable": True},
                },
            )
            for number in numbers
        )

    async def create_pod(self, name: str, limits: dict[str, str] | None = None) -> str:
        body = world.pod(1)
        body["metadata"] = {"name": name}
        body["spec"] |= {"schedulerName": "none"}
        del body["spec"]["containers"][0]["volumeMounts"]
        if limits is not None:
            body["spec"]["containers"][0]["resources"] = {"limits": limits}
        body.pop("status")
        return json.loads(await self.api.post(PODS, body))["metadata"]["uid"]

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
        async with self.http.post(f"{URL}/bind", json=args) as reply:
            answer = await reply.json()
        if answer["Error"]:
            raise RuntimeError(answer["Error"])


async def timed(bind: Callable[[int], Awaitable[None]]) -> float:
    """Bind a batch, several at once; return binds per second."""
    started = time.perf_counter()
    await spread((bind(number) for number in range(BATCH)), CONCURRENCY)
    return BATCH / (time.perf_counter() - started)


async def measure_bind(here: World) -> dict[str, float]:
    await here.create_nodes(range(BIND_NODES))
    await here.start()
    rates: dict[str, list[float]] = {"bare": [], "extender": []}
    for batch in range(2 * BATCHES):
        way = "bare" if batch % 2 else "extender"
        names = [f"bind-{batch}-{number}" for number in range(BATCH)]
        uids = dict(zip(names, await asyncio.gather(*map(here.create_pod, names)), strict=True))

        async def bind(number: int, batch: int = batch, way: str = way, uids: dict[str, str] = uids) -> None:
            name, node = f"bind-{batch}-{number}", (batch * BATCH + number) % BIND_NODES
            share = Share(world.inventory(node).cards[0].id, world.GIB)
            if way == "bare":
                await here.bind_bare(name, uids[name], world.node_name(node), Assignment({"main": (share,)}))
            else:
                await here.bind_through(name, uids[name], world.node_name(node))

        rates[way].append(await timed(bind))
    here.stop()
    bare, ours = (sorted(rates[way])[BATCHES // 2] for way in ("bare", "extender"))
    return {"bare_per_second": round(bare, 1), "extender_per_second": round(ours, 1), "ratio": round(ours / bare, 3)}


async def measure_memory(here: World) -> dict[str, object]:
    await here.create_nodes(range(BIND_NODES, NODES))

    async def bound_pod(number: int, slot: int) -> None:
        name = f"pod-{number}-{slot}"
        uid = await here.create_pod(name, world.limits(number))
        await here.bind_bare(name, uid, world.node_name(number), world.assignments(number)[slot])

    await spread(bound_pod(number, slot) for number in range(NODES) for slot in range(world.PODS))
    started = time.perf_counter()
    await here.start()
    ready = time.perf_counter() - started
    after_list = here.memory_mib()
    body = {"Pod": world.pod(24), "NodeNames": [world.node_name(number) for number in range(NODES)]}
    for _ in range(20):
        for verb in ("filter", "prioritize"):
            async with here.http.post(f"{URL}/{verb}", json=body) as reply:
                await reply.read()
    async with here.http.get(f"{URL}/inspect") as reply:
        shown = await reply.json()
    after_use = here.memory_mib()
    here.stop()
    return {
        "nodes": NODES,
        "pods": len({share["uid"] for node in shown["nodes"] for card in node["cards"] for share in card["shares"]}),
        "ready_seconds": round(ready, 1),
        "resident_mib": after_list,
        "resident_mib_after_use": after_use,
        "ratio_to_300_mib": round(after_use / 300, 3),
    }


async def run(paths: SandboxPaths) -> dict[str, object]:
    kubeconfig = paths.kubeconfig("admin")
    async with ApiClient(load_connection(kubeconfig)) as api, aiohttp.ClientSession() as http:
        here = World(api, http, kubeconfig)
        try:
            return {"bind": await measure_bind(here), "memory": await measure_memory(here)}
        finally:
            here.stop()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="ak-"))
    nodes = folder / "nodes.yaml"
    nodes.write_text("nodes: [{name: node-1}]\n")
    root = folder / "s"
    command = [sys.executable, "-m", "accelkit", "sandbox"]
    try:
        up = ["up", "--root", str(root), "--nodes", str(nodes), "--extender-port", str(PORT)]
        subprocess.run([*command, *up], check=True, stdout=sys.stderr)
        json.dump(asyncio.run(run(SandboxPaths(root))), sys.stdout, indent=2)
        print()
    finally:
        subprocess.run([*command, "down", "--root", str(root)], check=True, stdout=sys.stderr)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
