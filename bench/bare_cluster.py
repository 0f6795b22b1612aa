"""A control plane to measure on: etcd and kube-apiserver as the sandbox runs them, and what a benchmark adds.

There are no controllers, whose work would be measured too. So nodes are not tainted when they are created, and the
service account that pods get is created here. kwok, where it is installed, plays the kubelets.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import world

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.paths import NODES, build_collection_path
from accelkit.model.inventory import encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.sandbox import control_plane
from accelkit.sandbox.binaries import Binaries, find_binaries, find_cache_dir
from accelkit.sandbox.certificates import write_certificates
from accelkit.sandbox.layout import SandboxOptions, SandboxPaths, prepare
from accelkit.sandbox.processes import Child

PODS = build_collection_path("v1", "pods", "default")
START_SECONDS = 120.0
_QUIET_SECONDS = 1.0
_POD_WRITE = re.compile(r'apiserver_request_total\{.*resource="pods".*verb="(DELETE|PATCH|POST|PUT)"')
_AT_ONCE = 32
_OPTIONS = SandboxOptions(
    apiserver_args=("--disable-admission-plugins=TaintNodesByCondition", "--delete-collection-workers=8")
)
# What a node of this world has beside cards.
_ALLOCATABLE = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Object(msgspec.Struct):
    metadata: _Metadata


class _Event(msgspec.Struct):
    type: str
    object: _Object


_read_event = msgspec.json.Decoder(_Event).decode


class BareCluster:
    """An API server, its files and its administrator's client.

    Attributes:
        paths: of the files, as in a sandbox.
        binaries: of the control plane.
        api: the administrator's client.
        url: of the API server.
        servers: etcd and kube-apiserver, by name.
    """

    def __init__(self, paths: SandboxPaths, binaries: Binaries, api: ApiClient, servers: dict[str, Child]) -> None:
        self.paths, self.binaries, self.api, self.servers = paths, binaries, api, servers
        self.url = api.server

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.paths.build_kubeconfig_path("admin")

    def make_child(self, name: str, command: Sequence[str | Path], **environ: str) -> Child:
        """Return a process with a log of its own; `environ` is added to ours, without our KUBECONFIG."""
        inherited = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        return Child(name, [str(each) for each in command], self.paths.logs / f"{name}.log", {**inherited, **environ})

    async def create_nodes(self, numbers: Iterable[int], *, unschedulable: bool = False) -> None:
        """Create nodes of the world with their cards, as their agents and kubelets describe them."""
        await spread(self.api.post(NODES, _build_node(number, unschedulable=unschedulable)) for number in numbers)

    async def create_pod(self, name: str, limits: Mapping[str, str], *, scheduler: str = "none") -> str:
        """Create a pod in the namespace `default` for a scheduler; return its UID."""
        resources = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": dict(limits)}
        spec = {"schedulerName": scheduler, "containers": [{"name": "main", "image": "i", "resources": resources}]}
        made = await self.api.post(PODS, {"metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec})
        return str(json.loads(made)["metadata"]["uid"])

    async def delete_pods(self) -> None:
        """Delete all pods of the namespace `default` at once, and wait until the API server shows none."""
        async with asyncio.timeout(600):
            while await self.count_pods():
                # More than it deletes within a request's time; the next request goes on.
                with suppress(ApiError):
                    await self.api.delete(PODS, {"gracePeriodSeconds": 0})

    async def count_pods(self) -> int:
        """Return how many pods the namespace `default` has."""
        page = json.loads(await self.api.get(PODS, query={"limit": "1"}))
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))

    async def wait_until_quiet(self) -> None:
        """Wait until nobody writes pods any more: kwok goes on with those that were deleted, and takes their CPU."""
        before = -1.0

        async def nothing_came() -> bool:
            nonlocal before
            lines = (await self.api.get("/metrics")).decode().splitlines()
            now = sum(float(line.rpartition(" ")[2]) for line in lines if _POD_WRITE.match(line))
            came, before = now != before, now
            return not came

        await poll(nothing_came, seconds=START_SECONDS, interval=_QUIET_SECONDS, what="nobody writes pods")

    async def watch_binds(self, pods: int, opened: asyncio.Event) -> list[float]:
        """Return when each of so many pods was shown to be bound; `opened` is set when the watch is open or failed."""
        times = list[float]()
        try:
            page = json.loads(await self.api.get(PODS, query={"limit": "1"}))
            version = page["metadata"]["resourceVersion"]
            # The API server ends a watch whose reader is slow; the next one goes on where it ended.
            while len(times) < pods:
                query = {"watch": "1", "resourceVersion": version, "fieldSelector": "spec.nodeName!="}
                async with self.api.stream(PODS, query=query, silence_seconds=120 + pods) as lines:
                    opened.set()
                    async for line in lines:
                        event = _read_event(line)
                        version = event.object.metadata.resource_version
                        # A pod comes into view by being bound; what changes of it later is no such event.
                        if event.type == "ADDED":
                            times.append(time.monotonic())
                        if len(times) == pods:
                            break
        finally:
            opened.set()
        return times


@asynccontextmanager
async def run_cluster() -> AsyncIterator[BareCluster]:
    """Start etcd and kube-apiserver in a temporary folder; end them and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ak-"))
    paths, ports = SandboxPaths(folder / "s"), control_plane.Ports.choose_free()
    prepare(paths)
    binaries = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=_report)
    server = f"https://127.0.0.1:{ports.apiserver}"
    write_certificates(paths, server)
    etcd = control_plane.make_etcd(paths, binaries, ports)
    apiserver = control_plane.make_apiserver(paths, binaries, ports, _OPTIONS)
    authority = paths.pki / "ca.crt"
    try:
        async with (
            running(etcd, control_plane.probe_http(f"http://127.0.0.1:{ports.etcd}/readyz")),
            running(apiserver, control_plane.probe_http(f"{server}/readyz", authority)),
            ApiClient(load_connection(paths.build_kubeconfig_path("admin")), timeout_seconds=60) as api,
        ):
            await _create_account(api)
            yield BareCluster(paths, binaries, api, {"etcd": etcd, "kube-apiserver": apiserver})
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def running(child: Child, probe: Callable[[], Awaitable[bool]]) -> AsyncIterator[Child]:
    """Run a process from the moment it is ready to the end of the block."""
    await child.start()
    try:
        await child.wait_until_ready(probe, seconds=START_SECONDS)
        yield child
    finally:
        await child.stop()


def find_kwok(cluster: BareCluster) -> Path | None:
    """Return the program kwok, beside the control plane's or on PATH; None where there is none."""
    folder = cluster.binaries.kube_scheduler.parent
    found = shutil.which("kwok", path=f"{folder}{os.pathsep}{os.environ.get('PATH', '')}")
    return Path(found).resolve() if found else None


@asynccontextmanager
async def kubelets(cluster: BareCluster, kwok: Path | None, nodes: int) -> AsyncIterator[None]:
    """Have kwok keep the nodes ready and their pods running; without it they are objects, and pods stay pending."""
    if kwok is None:
        yield
        return
    port = world.find_free_port()
    # Some builds come without their own stages.
    stages = kwok.with_name("kwok-stages.yaml")
    # It renews all leases at once: whichever way met that, would pay for it.
    command: list[str | Path] = [
        *(kwok, "--kubeconfig", cluster.kubeconfig, "--manage-all-nodes=true", "--node-lease-duration-seconds=36000"),
        *("--node-ip=10.0.0.1", "--cidr=10.0.0.0/8", f"--server-address=127.0.0.1:{port}"),
        *(("--config", stages) if stages.exists() else ()),
    ]
    child = cluster.make_child("kwok", command)
    async with running(child, control_plane.probe_http(f"http://127.0.0.1:{port}/healthz")):

        async def all_ready() -> bool:
            return await _count_ready(cluster.api) >= nodes

        await poll(all_ready, seconds=START_SECONDS + nodes / 20, what=f"{nodes} nodes are ready")
        yield


async def spread(work: Iterable[Awaitable[object]], at_once: int = _AT_ONCE) -> None:
    """Await all of `work`, so many at once; `work` is read as it is awaited."""
    left = iter(work)

    async def go_on() -> None:
        for item in left:
            await item

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(go_on())


async def poll(question: Callable[[], Awaitable[bool]], *, seconds: float, what: str, interval: float = 0.2) -> None:
    """Ask until the answer is true, every so many seconds.

    Raises:
        TimeoutError: it is not within the time; the message says what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not await question():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(interval)


def read_cpu_seconds(child: Child) -> float:
    """Return the CPU time of a running process, user and system."""
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _build_node(number: int, *, unschedulable: bool) -> dict[str, Any]:
    name, inventory = world.format_node_name(number), world.build_inventory(number)
    memory = sum(card.memory_bytes or 0 for card in inventory.cards) // world.GIB
    amounts = {**_ALLOCATABLE, "accelkit.io/memory": str(memory), "accelkit.io/cards": str(len(inventory.cards))}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "accelkit.io/share": "true"},
            "annotations": {INVENTORY_ANNOTATION: encode_inventory(inventory)},
        },
        "spec": {"unschedulable": True} if unschedulable else {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


async def _create_account(api: ApiClient) -> None:
    path = build_collection_path("v1", "serviceaccounts", "default")

    async def created() -> bool:
        try:
            await api.post(path, {"metadata": {"name": "default"}})
        except ApiError as exc:
            # The namespace comes a moment after the server is ready.
            return exc.reason == "AlreadyExists"
        return True

    await poll(created, seconds=START_SECONDS, what="the service account of pods is created")


async def _count_ready(api: ApiClient) -> int:
    nodes = json.loads(await api.get(NODES))["items"]
    kinds = [{each["type"]: each["status"] for each in node["status"].get("conditions", ())} for node in nodes]
    return len([each for each in kinds if each.get("Ready") == "True"])


def _report(line: str) -> None:
    print(line, file=sys.stderr)
