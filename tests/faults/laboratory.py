"""A cluster whose every process can be killed, stopped or cut off.

etcd, API server, controller manager and kube-scheduler are the real ones.

Two extenders stand behind a Service as they are shipped, with TLS and HTTP/2; nodes are simulated by kubelets that
speak the real protocols to real node agents. Each process but etcd has its own way to the API server, a `Gate`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from faults.false_clock import FalseClock
from faults.gate import Gate
from faults.hosted import HostedSettings
from faults.members import Member, probe_sockets
from faults.service_address import ServiceAddress
from faults.small_disk import SmallDisk
from ports import free_port

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.managed_resources import (
    MANAGED_RESOURCES_LABELS,
    MANAGED_RESOURCES_NAME,
    ManagedResources,
    encode_managed_resources,
)
from accelkit.sandbox import control_plane
from accelkit.sandbox.binaries import find_binaries, find_cache_dir
from accelkit.sandbox.certificates import Authority, write_certificates
from accelkit.sandbox.layout import SandboxOptions, SandboxPaths, prepare
from accelkit.sandbox.nodes import NodeSpec, SimulatedCard
from accelkit.sandbox.processes import read_tail
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.serving.tls import CLIENT_NAME

GIB = 2**30
NAMESPACE = "accelkit"
SERVICE = "accelkit-extender"
SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{SERVICE}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{SERVICE}"
# Of a network for documentation: the API server takes no loopback address, and nothing is sent there.
ADVERTISED = "192.0.2.1"
# The services that are shipped.
OURS = ("extender", "agents")
REPLICAS = ("extender-a", "extender-b")
RESOURCES = {
    "native": ("accelkit.io/memory", "accelkit.io/cards"),
    "gcushare": ("enflame.com/gcu-memory", "enflame.com/gcu-count"),
    "aliyun": ("aliyun.com/gpu-mem", "aliyun.com/gpu-count"),
}
# On which kubelets and agents listen once they serve their node.
SOCKETS = {"kubelets": ("kubelet.sock",), "agents": ("accelkit-memory.sock", "accelkit-cards.sock")}
HOSTED = Path(__file__).with_name("hosted.py")
START_SECONDS = 120.0
# Of a process while everything starts; kube-scheduler and others may end once or twice until they find what they need.
MOST_ENDS = 5


@dataclass(kw_only=True)
class Shape:
    """What the laboratory consists of, and the options of our services, which a storm may change.

    Attributes:
        nodes_per_process: so many kubelets, and so many agents, share a process.
        dialects: those whose pods the extenders and kube-scheduler know; agents serve `dialect` of them.
    """

    nodes: int = 6
    nodes_per_process: int = 3
    unit: str = "1GiB"
    policy: str = "binpack"
    dialects: tuple[str, ...] = ("native",)
    dialect: str = "native"

    @property
    def resources(self) -> tuple[str, str]:
        """The names of memory and of whole cards in the dialect that agents serve."""
        return RESOURCES[self.dialect]


class Laboratory:
    """The cluster.

    Attributes:
        members: its processes by name.
        gates: their ways to the API server by name.
        service: the way of kube-scheduler to the extender that leads.
        clocks: those of our services by name.
        disk: on which our services write.
        api: an administrator's client that no fault touches, except those of the API server and etcd.
    """

    def __init__(self, shape: Shape, folder: Path, roots: Path) -> None:
        self.shape = shape
        self.folder = folder
        self.paths = SandboxPaths(folder)
        self.ports = control_plane.Ports.choose_free()
        self.specs = [build_node(number) for number in range(shape.nodes)]
        self.roots = {spec.name: roots / str(number) for number, spec in enumerate(self.specs)}
        self.members: dict[str, Member] = {}
        self.gates: dict[str, Gate] = {}
        self.clocks: dict[str, FalseClock] = {}
        self.disk = SmallDisk(self.paths.logs / "services")
        self.server = f"https://127.0.0.1:{self.ports.apiserver}"
        self.admin = self.paths.build_kubeconfig_path("admin")
        self.service_port = free_port()
        self.api: ApiClient
        self.service: ServiceAddress

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[Laboratory]:
        """Start everything, wait until pods can be scheduled, and end everything in the end."""
        prepare(self.paths)
        write_certificates(self.paths, self.server)
        self._write_extender_certificates()
        async with contextlib.AsyncExitStack() as stack:
            self.disk.mount()
            stack.callback(self.disk.unmount)
            self.api = await stack.enter_async_context(ApiClient(load_connection(self.admin), timeout_seconds=15))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            tasks: list[asyncio.Task[None]] = []

            async def end() -> None:
                for task in tasks:
                    task.cancel()
                for link in (*self.gates.values(), self.service):
                    await link.stop()

            stack.push_async_callback(end)
            async with asyncio.timeout(START_SECONDS):
                await self._start(lambda coroutine: tasks.append(group.create_task(coroutine)))
            yield self

    async def read(self, path: str) -> Any:
        return msgspec.json.decode(await self.api.get(path))

    def list_pids(self) -> list[int]:
        """Return the processes of the laboratory that run now, and this one."""
        return [os.getpid(), *(pid for member in list(self.members.values()) if (pid := member.pid) is not None)]

    def name_host(self, role: str, node: str) -> str:
        """Return the process that runs the kubelet, or the agent, of a node."""
        number = next(at for at, spec in enumerate(self.specs) if spec.name == node)
        return f"{role}-{number // self.shape.nodes_per_process}"

    async def _start(self, spawn: Callable[[Any], None]) -> None:
        binaries = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=print)
        options = SandboxOptions()
        authority = self.paths.pki / "ca.crt"
        probe_http = control_plane.probe_http
        etcd = control_plane.make_etcd(self.paths, binaries, self.ports)
        apiserver = control_plane.make_apiserver(self.paths, binaries, self.ports, options)
        manager = control_plane.make_controller_manager(self.paths, binaries, self.ports)
        scheduler = control_plane.make_scheduler(self.paths, binaries, self.ports)
        self._add("etcd", etcd._command, probe_http(f"http://127.0.0.1:{self.ports.etcd}/readyz"))
        self._add("kube-apiserver", apiserver._command, probe_http(f"{self.server}/readyz", authority))
        for name in ("etcd", "kube-apiserver"):
            spawn(self.members[name].keep())
            await self.members[name].ready()
        await self._create_namespace()
        self._add(
            "kube-controller-manager",
            manager._command,
            probe_http(f"https://127.0.0.1:{self.ports.controller_manager}/healthz"),
        )
        self.service = ServiceAddress(self.api, SLICE, self.service_port)
        await self.service.start()
        spawn(self.service.run())
        await self._add_gated(
            "kube-scheduler", scheduler._command, probe_http(f"https://127.0.0.1:{self.ports.scheduler}/readyz")
        )
        self._write_scheduler_configuration()
        for name in REPLICAS:
            await self._add_extender(name)
        for role in ("kubelets", "agents"):
            await self._add_hosts(role)
        for name, member in self.members.items():
            if name not in ("etcd", "kube-apiserver"):
                spawn(member.keep())
        await self._wait_for_nodes()
        for member in self.members.values():
            await member.ready()

    def _add(self, name: str, command: Sequence[str] | Callable[[], Sequence[str]], probe: Any = None) -> None:
        if not name.startswith(OURS):
            self.members[name] = Member(name, command, self.paths.logs, probe)
            return
        self.clocks[name] = FalseClock(self.folder / f"{name}.clock")
        environment = self.clocks[name].environment
        self.members[name] = Member(name, command, self.disk.folder, probe, environment=environment)

    async def _add_gated(
        self, name: str, command: Sequence[str] | Callable[[], Sequence[str]], probe: Any = None
    ) -> None:
        self.gates[name] = Gate(name, self.admin, self.folder, free_port())
        await self.gates[name].start()
        self._add(name, command, probe)

    async def _add_extender(self, name: str) -> None:
        port, probes = free_port(), free_port()
        pki = self.paths.pki

        def command() -> list[str]:
            return [
                *(sys.executable, "-m", "accelkit", "extender", "--listen", f"127.0.0.1:{port}"),
                *("--tls-cert", str(pki / "extender.crt"), "--tls-key", str(pki / "extender.key")),
                *("--client-ca", str(pki / "extender-ca.crt"), "--probe-port", str(probes)),
                *("--lease", f"{NAMESPACE}/{SERVICE}", "--service", SERVICE, "--identity", name),
                *("--advertise", ADVERTISED, "--wake", "--pod-groups", "--unit", self.shape.unit),
                *("--policy", self.shape.policy),
                *(word for dialect in self.shape.dialects for word in ("--dialect", dialect)),
                *("--kubeconfig", str(self.gates[name].kubeconfig)),
                *("--log-dir", str(self.disk.folder)),
            ]

        await self._add_gated(name, command, control_plane.probe_http(f"http://127.0.0.1:{probes}/healthz"))

    async def _add_hosts(self, role: str) -> None:
        size = self.shape.nodes_per_process
        for number, first in enumerate(range(0, len(self.specs), size)):
            name, specs = f"{role}-{number}", self.specs[first : first + size]
            file = self.folder / f"{name}.json"

            def command(name: str = name, specs: list[NodeSpec] = specs, file: Path = file) -> list[str]:
                settings = HostedSettings(
                    nodes=specs,
                    roots=[str(self.roots[spec.name]) for spec in specs],
                    kubeconfig=str(self.gates[name].kubeconfig),
                    admin_kubeconfig=str(self.admin),
                    namespace=NAMESPACE,
                    log_folder=str(self.disk.folder),
                    unit_bytes=parse_unit(self.shape.unit),
                    dialect=self.shape.dialect,
                )
                file.write_bytes(msgspec.json.encode(settings))
                return [sys.executable, str(HOSTED), name.partition("-")[0], str(file)]

            folders = [self.roots[spec.name] / "var/lib/kubelet/device-plugins" for spec in specs]
            await self._add_gated(
                name, command, probe_sockets([folder / socket for folder in folders for socket in SOCKETS[role]])
            )

    def _write_extender_certificates(self) -> None:
        authority = Authority("laboratory")
        pairs = {
            "extender": authority.issue_server("accelkit-extender", ("127.0.0.1", "localhost")),
            "client": authority.issue_client(CLIENT_NAME),
        }
        (self.paths.pki / "extender-ca.crt").write_bytes(authority.certificate)
        for name, pair in pairs.items():
            (self.paths.pki / f"{name}.crt").write_bytes(pair.certificate)
            (self.paths.pki / f"{name}.key").write_bytes(pair.key)

    def _write_scheduler_configuration(self) -> None:
        pki = self.paths.pki
        tls = {"caFile": str(pki / "extender-ca.crt"), "certFile": str(pki / "client.crt")}
        entry = ExtenderEntry(
            url_prefix=f"https://127.0.0.1:{self.service_port}",
            enable_https=True,
            tls_config={**tls, "keyFile": str(pki / "client.key")},
            managed_resources=tuple(name for dialect in self.shape.dialects for name in RESOURCES[dialect]),
        ).build_entry()
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.gates["kube-scheduler"].kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "extenders": [entry],
        }
        self.paths.scheduler_config.write_text(json.dumps(configuration))

    async def _create_namespace(self) -> None:
        await self.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        ports = [{"name": "https", "port": 443}]
        service = {"metadata": {"name": SERVICE}, "spec": {"ports": ports}}
        await self.api.post(f"/api/v1/namespaces/{NAMESPACE}/services", service)
        # What site.yml writes once every kube-scheduler is configured.
        names = sorted(name for dialect in self.shape.dialects for name in RESOURCES[dialect])
        metadata = {"name": MANAGED_RESOURCES_NAME, "labels": MANAGED_RESOURCES_LABELS}
        record = {"metadata": metadata, "data": encode_managed_resources(ManagedResources(tuple(names)))}
        await self.api.post(f"/api/v1/namespaces/{NAMESPACE}/configmaps", record)

    async def _wait_for_nodes(self) -> None:
        while True:
            for member in self.members.values():
                if len(member.unexpected_ends) >= MOST_ENDS:
                    raise AssertionError(f"{member.name} ends whenever it is started:\n{read_tail(member.log)}")
            nodes = (await self.read("/api/v1/nodes"))["items"]
            shared = [
                node["metadata"]["name"]
                for node in nodes
                if "accelkit.io/inventory" in node["metadata"].get("annotations", {})
                and int(node["status"]["allocatable"].get("accelkit.io/memory", 0))
            ]
            with contextlib.suppress(ApiError):
                await self.read("/api/v1/namespaces/default/serviceaccounts/default")
                await self.read(SLICE)
                if len(shared) == len(self.specs):
                    return
            await asyncio.sleep(0.2)


def build_node(number: int) -> NodeSpec:
    """Return the node of a number: cards that are equal, or that differ."""
    name = f"node-{number:02}"
    sizes = (16,) * 4 if number % 3 else (16, 16, 32, 32)
    cards = [
        SimulatedCard(id=f"sim-{name}-{at}", model=f"sim-{size}g", memory_bytes=size * GIB)
        for at, size in enumerate(sizes)
    ]
    return NodeSpec(name=name, cards=tuple(cards), labels={"accelkit.io/share": "true"}, cpu=64, memory_bytes=256 * GIB)


def parse_unit(unit: str) -> int:
    number, scale = unit[:-3], unit[-3:]
    return int(number) * {"MiB": 2**20, "GiB": GIB}[scale]


@contextlib.contextmanager
def open_folders() -> Iterator[tuple[Path, Path]]:
    """Make a folder for the laboratory's files, and one with a short name for unix sockets."""
    with tempfile.TemporaryDirectory(prefix="akl-") as folder:
        roots = Path(folder) / "n"
        roots.mkdir()
        yield Path(folder) / "lab", roots
