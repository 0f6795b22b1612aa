"""Memory of the extender with many nodes and pods, and how soon it is ready.

It lists nodes of 8 cards and pods that each hold a share, answers filter and prioritize with all names, and shows all
of it once, which is the most that it ever holds. By default a server of this benchmark plays the API server, because a
real one takes long to fill; `--real` fills a real one, for comparison at a size that it can bear.
Prints JSON: resident memory in MB (millions of bytes) after the list, after use and at its peak.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import object_server
import world
from bare_cluster import PODS, START_SECONDS, run_cluster, running, spread
from figures import Figure, report

from accelkit.sandbox.control_plane import probe_http
from accelkit.sandbox.processes import Child

AIM_OF_MEMORY_MB = 1000
_REQUESTS = 20
_MB = 1_000_000


@dataclass(frozen=True)
class Size:
    nodes: int = 20_000
    pods: int = 100_000


@asynccontextmanager
async def serve_objects(folder: Path, size: Size) -> AsyncIterator[Path]:
    """Play the API server; yields a kubeconfig."""
    port = world.find_free_port()
    process = multiprocessing.Process(target=object_server.serve, args=(port, size.nodes, size.pods), daemon=True)
    process.start()
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "c", "context": {"cluster": "c"}}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "c"}))
    try:
        yield kubeconfig
    finally:
        process.terminate()
        process.join(10)


@asynccontextmanager
async def fill_cluster(size: Size) -> AsyncIterator[Path]:
    """Fill a real API server; yields a kubeconfig."""
    async with run_cluster() as cluster:
        await cluster.create_nodes(range(size.nodes), unschedulable=True)

        def build(number: int) -> dict[str, Any]:
            pod = world.build_bound_pod(number % size.nodes, number // size.nodes)
            for key in ("uid", "resourceVersion", "managedFields", "generateName", "ownerReferences"):
                del pod["metadata"][key]
            # Volumes of the service account are added by the API server.
            del pod["spec"]["containers"][0]["volumeMounts"]
            return pod

        await spread(cluster.api.post(PODS, build(number)) for number in range(size.pods))
        yield cluster.kubeconfig


def read_memory_mb(child: Child, field: str) -> int:
    """Return a field of the process's status, `VmRSS` now or `VmHWM` at its peak, in millions of bytes."""
    lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
    kibibytes = next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
    return kibibytes * 1024 // _MB


async def measure_at(kubeconfig: Path, folder: Path, size: Size) -> dict[str, object]:
    port = world.find_free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "accelkit", "extender", "--listen", f"127.0.0.1:{port}", "--plain-http"]
    child = Child("extender", [*command, "--kubeconfig", str(kubeconfig)], folder / "extender.log", os.environ)
    started = time.perf_counter()
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=START_SECONDS)) as http,
        running(child, probe_http(f"{url}/readyz")),
    ):
        ready = time.perf_counter() - started
        after_list = read_memory_mb(child, "VmRSS")
        names = [world.format_node_name(number) for number in range(size.nodes)]
        body = {"Pod": world.build_pod(24), "NodeNames": names}
        fitting = 0
        for _ in range(_REQUESTS):
            for verb in ("filter", "prioritize"):
                async with http.post(f"{url}/{verb}", json=body) as reply:
                    answer = json.loads(await reply.read())
                    fitting = len(answer["NodeNames"]) if verb == "filter" else fitting
        after_use = read_memory_mb(child, "VmRSS")
        async with http.get(f"{url}/inspect") as reply:
            results = json.loads(await reply.read())
        peak = read_memory_mb(child, "VmHWM")
    shares = {share["uid"] for node in results["nodes"] for card in node["cards"] for share in card["shares"]}
    return {
        "nodes": len(results["nodes"]),
        "cards": results["totals"]["cards"],
        "pods": len(shares),
        "fitting_nodes": fitting,
        "ready_seconds": round(ready, 1),
        "resident_mb_after_list": after_list,
        "resident_mb_after_use": Figure(after_use, AIM_OF_MEMORY_MB),
        "resident_mb_at_peak": Figure(peak, AIM_OF_MEMORY_MB),
    }


async def measure(size: Size, *, real: bool) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="ak-") as name:
        folder = Path(name)
        source = fill_cluster(size) if real else serve_objects(folder, size)
        async with source as kubeconfig:
            results = await measure_at(kubeconfig, folder, size)
            return {"api_server": "kube-apiserver" if real else "played by this benchmark", **results}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=Size.nodes, help="nodes of 8 cards")
    parser.add_argument("--pods", type=int, default=Size.pods, help="pods, at most 24 for each node")
    parser.add_argument("--real", action="store_true", help="fill a real API server")
    options = parser.parse_args()
    report(asyncio.run(measure(Size(options.nodes, options.pods), real=options.real)))


if __name__ == "__main__":
    main()
