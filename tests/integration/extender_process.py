"""The real `accelkit extender` as a process, and the objects it looks at, for the tests beside this module."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
from impersonation import is_done
from ports import free_port
from support.waiting import DEADLINE, until

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

GIB = 2**30
MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"
ASSIGNMENT = "accelkit.io/assignment"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"

_numbers = itertools.count()


class Process:
    """`accelkit extender …`, ended at the latest when its block is left."""

    def __init__(self, log: Path, *arguments: str, port: int | None = None, plain: bool = True) -> None:
        self.port = port or free_port()
        self.log = log / f"extender-{next(_numbers)}.log"
        self.url = f"{'http' if plain else 'https'}://127.0.0.1:{self.port}"
        self._arguments = [*(["--plain-http"] if plain else []), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "accelkit", "extender", "--listen", f"127.0.0.1:{self.port}"]
        environ = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*command, *self._arguments], stdout=log, stderr=log, env=environ)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    async def ended(self, *, seconds: float = DEADLINE) -> int:
        """Wait until it has ended; return its exit code."""

        return int(await until(self.process.poll, accept=lambda code: code is not None, seconds=seconds))

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        if self._process is not None:
            self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Client:
    """The HTTP of an extender, as kube-scheduler and people use it."""

    def __init__(self, process: Process, session: aiohttp.ClientSession, tls: Any = True) -> None:
        self.process = process
        self.session = session
        self._tls = tls

    async def ask(self, method: str, path: str, body: object = None, **options: Any) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        url = self.process.url + path
        async with self.session.request(method, url, data=data, ssl=self._tls, **options) as response:
            return response.status, await response.read()

    async def post(self, verb: str, body: object) -> Any:
        status, answer = await self.ask("POST", verb, body)
        assert status == 200, answer
        return json.loads(answer)

    async def readiness(self) -> tuple[int, str]:
        status, text = await self.ask("GET", "/readyz")
        return status, text.decode().strip()

    async def ready(self) -> Self:
        """Wait until it is ready."""

        async def answers() -> bool:
            assert self.process.process.poll() is None, self.process.log.read_text()
            with contextlib.suppress(aiohttp.ClientError):
                return (await self.readiness())[0] == 200
            return False

        await until(answers)
        return self

    async def wakes(self) -> bool:
        """Whether it looks at changes by now, to wake pods: what the first lists show is none."""
        return b'wakes_total{result="written"}' in (await self.ask("GET", "/metrics"))[1]

    async def bind(self, pod: dict[str, Any], node: str, *, uid: str | None = None) -> str:
        meta = pod["metadata"]
        names = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": uid or meta["uid"]}
        return str((await self.post("/bind", {**names, "Node": node}))["Error"])

    async def filter(self, pod: dict[str, Any], *nodes: str) -> dict[str, Any]:
        answer: dict[str, Any] = await self.post("/filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
        return answer

    async def inspect(self, node: str = "") -> dict[str, Any]:
        status, body = await self.ask("GET", f"/inspect/{node}" if node else "/inspect")
        return msgspec.json.decode(body, type=dict[str, Any]) if status == 200 else {"nodes": []}

    async def node(self, name: str) -> dict[str, Any]:
        """Return what is shown of one node, empty where it is not known."""
        nodes: list[dict[str, Any]] = (await self.inspect(name))["nodes"]
        return nodes[0] if nodes else {}

    async def used(self, node: str) -> int:
        """GiB in use on a node."""
        return int((await self.node(node))["totals"]["used_bytes"]) // GIB

    async def shows(
        self, node: str, accept: Callable[[dict[str, Any]], Any], *, seconds: float = DEADLINE
    ) -> dict[str, Any]:
        """Wait until what is shown of a node is as expected; return it."""

        view: dict[str, Any] = await until(
            lambda: self.node(node), accept=lambda view: view and accept(view), seconds=seconds
        )
        return view


@contextlib.asynccontextmanager
async def client_of(process: Process, tls: Any = True) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield await Client(process, session, tls).ready()


class World:
    """Nodes and pods of one test on a real API server, deleted at its end."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self.prefix = f"x{os.getpid()}-{next(_numbers)}"
        self._pods: list[str] = []
        self._nodes: list[str] = []

    async def node(self, cards: int = 8, memory: int = 80, *, annotation: str | None = None, **body: Any) -> str:
        """Create an unschedulable node, with equal cards of so many GiB."""
        name = body.get("name") or f"{self.prefix}-n{next(_numbers)}"
        text = inventory(name, cards, memory) if annotation is None else annotation
        annotations = {INVENTORY_ANNOTATION: text} if text else {}
        metadata = {"name": name, "annotations": annotations, "labels": {"accelkit-test": name}}
        amounts = body.get("allocatable", {})
        status = {"capacity": amounts, "allocatable": amounts}
        self._nodes.append(name)
        await self.api.post(NODES, {"metadata": metadata, "spec": {"unschedulable": True}, "status": status})
        return name

    async def annotate(self, node: str, text: str | None) -> None:
        await self.api.patch(f"{NODES}/{node}", {"metadata": {"annotations": {INVENTORY_ANNOTATION: text}}})

    async def pod(self, memory: int = 0, *, cards: int = 0, **body: Any) -> dict[str, Any]:
        """Create a pod that no scheduler looks at; `node_name` puts it on a node past everybody."""
        name = body.get("name") or f"{self.prefix}-p{next(_numbers)}"
        limits = {MEMORY: str(memory)} if memory else {CARDS: str(cards)}
        spec = {
            "schedulerName": "none",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": limits}}],
            **({"nodeName": body["node_name"]} if "node_name" in body else {}),
            **body.get("spec", {}),
        }
        metadata = {"name": name, "annotations": body.get("annotations", {}), "labels": body.get("labels", {})}
        self._pods.append(name)
        made = await self.api.post(PODS, {"metadata": metadata, "spec": spec})
        return msgspec.json.decode(made, type=dict[str, Any])

    async def pods(self, count: int, memory: int) -> list[dict[str, Any]]:
        return await asyncio.gather(*(self.pod(memory) for _ in range(count)))

    async def read(self, pod: dict[str, Any]) -> dict[str, Any]:
        return msgspec.json.decode(await self.api.get(f"{PODS}/{pod['metadata']['name']}"), type=dict[str, Any])

    async def unschedulable(self, pod: dict[str, Any]) -> str:
        """Wait until kube-scheduler has found no node for a pod; return what it says."""

        async def said() -> str:
            conditions = (await self.read(pod))["status"].get("conditions", ())
            return next((each["message"] for each in conditions if each.get("reason") == "Unschedulable"), "")

        return str(await until(said, seconds=60))

    async def bind_past(self, pod: dict[str, Any], node: str, annotations: dict[str, str] | None = None) -> None:
        """Bind without the extender, as another program would."""
        meta = pod["metadata"]
        metadata = {"name": meta["name"], "namespace": "default", "annotations": annotations or {}}
        binding = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
        await self.api.post(f"{PODS}/{meta['name']}/binding", {"apiVersion": "v1", **binding})

    async def phase(self, pod: dict[str, Any], phase: str) -> None:
        await self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": phase}})

    async def delete(self, pod: dict[str, Any], *, seconds: int | None = None) -> None:
        options = None if seconds is None else {"gracePeriodSeconds": seconds}
        await self.api.delete(f"{PODS}/{pod['metadata']['name']}", options)

    async def delete_node(self, node: str) -> None:
        await self.api.delete(f"{NODES}/{node}")

    async def charged(self, *nodes: str) -> dict[str, int]:
        """Return GiB by card, from the annotations of all pods that are bound to these nodes and have not ended."""
        used: dict[str, int] = {}
        for pod in msgspec.json.decode(await self.api.get(PODS))["items"]:
            if pod["spec"].get("nodeName") in nodes and pod["status"]["phase"] not in ("Succeeded", "Failed"):
                for shares in json.loads(pod["metadata"]["annotations"][ASSIGNMENT])["containers"].values():
                    for share in shares:
                        used[share["card"]] = used.get(share["card"], 0) + share["memory_bytes"] // GIB
        return used

    async def close(self) -> None:
        gone = [f"{PODS}/{name}" for name in self._pods], [f"{NODES}/{name}" for name in self._nodes]
        for paths in gone:
            await asyncio.gather(*(self._remove(path) for path in paths))

    async def _remove(self, path: str) -> None:
        try:
            await self.api.delete(path, {"gracePeriodSeconds": 0})
        except ApiError as exc:
            if exc.reason != "NotFound":
                raise


@contextlib.asynccontextmanager
async def world_of(kubeconfig: Path) -> AsyncIterator[World]:
    """A world on the API server of a kubeconfig; pods can be created as soon as it is entered."""
    async with ApiClient(load_connection(kubeconfig), timeout_seconds=60) as api:
        await until(lambda: is_done(api.get("/api/v1/namespaces/default/serviceaccounts/default")))
        world = World(api)
        try:
            yield world
        finally:
            await world.close()


def inventory(node: str, cards: int = 8, memory: int = 80, **changes: Any) -> str:
    """Return the inventory annotation of a node with equal cards of so many GiB."""
    listed = tuple(Card(f"{node}-{number}", "simulated", "sim", memory * GIB) for number in range(cards))
    return encode_inventory(Inventory(changes.get("unit_bytes", GIB), listed))


def assignment(card: str, memory: int) -> dict[str, str]:
    """Return the annotation that gives the container `main` so many GiB of a card."""
    shares = [{"card": card, "memory_bytes": memory * GIB}]
    return {ASSIGNMENT: json.dumps({"version": 1, "containers": {"main": shares}})}


def used_by_card(view: dict[str, Any]) -> dict[str, int]:
    """GiB by card of what is shown of a node; free cards are left out."""
    return {card["id"]: card["used_bytes"] // GIB for card in view["cards"] if card["used_bytes"]}


async def create_known_node(extender: Client, world: World, *shape: int, **options: Any) -> str:
    """Create a node; return as soon as the extender knows its cards, or that they are unknown."""
    node = await world.node(*shape, **options)
    await extender.shows(node, lambda view: view["state"] != "none")
    return node


async def wait_until_seen(extender: Client, world: World) -> None:
    """Wait until the extender has seen all pods, by creating one more and waiting for it."""
    nowhere = f"{world.prefix}-nowhere"
    await world.pod(1, node_name=nowhere, annotations=assignment("none", 1))
    await extender.shows(nowhere, lambda view: view["cards"])


def stages(view: dict[str, Any]) -> list[str]:
    return [share["stage"] for card in view["cards"] for share in card["shares"]]
