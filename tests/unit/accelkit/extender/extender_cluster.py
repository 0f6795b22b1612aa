"""The whole extender in this process, and the cluster that it looks at."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_api.server import Request
from http_service import PATIENCE_SECONDS, ServedApi, connected
from ports import free_port
from support.nodes import build_node
from support.pods import REFUSED, build_pod
from support.requests import build_inventory
from support.waiting import until

from accelkit.extender.leadership import Replica
from accelkit.extender.service import ExtenderOptions, run
from accelkit.kube.lease import LeaseName
from accelkit.kube.paths import NODES, PODS
from accelkit.placement.policies import Policy
from accelkit.serving.tls import Listen

LEASES = "/apis/coordination.k8s.io/v1/namespaces/d/leases"
LEASE = f"{LEASES}/l"
REPLICA = Replica(LeaseName("d", "l"), "us")


class Cluster:
    """An API server and the extender on it, both spoken to over HTTP."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.api, self.at = folder, ServedApi(), Listen("127.0.0.1", free_port())
        self.node()

    @contextlib.asynccontextmanager
    async def extender(
        self, *, ready: bool = True, dialects: tuple[str, ...] = ("native",), **options: Any
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Run the extender; yields its task, and ends it as a kubelet does."""
        async with self.api.served(self.folder) as kubeconfig:
            given = ExtenderOptions(self.at, 1, Policy.BINPACK, dialects, kubeconfig, **options)
            running = asyncio.create_task(run(given))
            try:
                if ready:
                    await self.readiness("ok")
                yield running
                if not running.done():
                    os.kill(os.getpid(), signal.SIGTERM)
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        await running
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    def node(self, *cards: str, name: str = "n") -> dict[str, Any]:
        return self.api.store(NODES, build_node(name, build_inventory(*(cards or "a"))))

    def pod(self, name: str = "p", memory: int = 4) -> dict[str, Any]:
        return self.api.store(PODS, build_pod(name, memory=memory, status=REFUSED))

    async def ask(self, path: str, body: object = None, *, port: int | None = None) -> tuple[int, str]:
        async with connected(replace(self.at, port=port or self.at.port)) as connection:
            method = "GET" if body is None else "POST"
            status, _, answer = await connection.ask(method, path, json.dumps(body).encode() if body else b"")
        return status, answer.decode()

    async def bind(self, name: str = "p") -> object:
        """Bind a pod; return the sentence that is the answer, empty for success, or the status of a refusal."""
        body = {"PodName": name, "PodNamespace": "d", "PodUID": f"uid-{name}", "Node": "n"}
        status, answer = await self.ask("/bind", body)
        return json.loads(answer)["Error"] if status == 200 else status

    async def bound(self, name: str = "p") -> None:
        """Bind a pod again and again until it succeeds."""
        await until(lambda: self.bind(name), accept=lambda error: not error)

    async def filter(self, name: str = "p") -> object:
        """Return which nodes fit a new pod."""
        pod = self.pod(name)
        return json.loads((await self.ask("/filter", {"Pod": pod, "NodeNames": ["n"]}))[1]).get("NodeNames")

    async def shows(self, path: str, accept: Callable[[str], bool]) -> None:
        """Ask until the answer is accepted."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                # It does not listen yet, or makes all callers connect anew.
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    if accept((await self.ask(path))[1]):
                        return
                await asyncio.sleep(0.005)

    async def readiness(self, text: str) -> None:
        await self.shows("/readyz", f"{text}\n".__eq__)

    async def metric(self, name: str, value: str) -> None:
        await self.shows("/metrics", lambda text: f"{name} {value}" in text.splitlines())

    async def uses(self, amount: int) -> None:
        await self.shows("/inspect", lambda text: json.loads(text)["totals"]["used_bytes"] == amount)

    async def fits(self, answer: bool) -> None:
        """Wait until the pod fits the node, or does not."""
        await until(self.filter, accept=lambda nodes: bool(nodes) is answer)

    async def pod_is_fit(self) -> None:
        """Create a pod, and wait until it fits the node."""
        self.pod()
        await self.fits(True)

    @property
    def bindings(self) -> list[str]:
        return [request.path for request in self.api.requests if request.path.endswith("/binding")]

    def hold(self, part: str, method: str = "GET") -> asyncio.Event:
        """Keep requests whose path ends so from being answered until the event that is returned is set."""
        gate = asyncio.Event()

        async def wait(request: Request) -> None:
            if request.path.endswith(part) and request.method == method:
                await gate.wait()

        self.api.before.append(wait)
        return gate

    def lease(self, holder: str, seconds: int = 15) -> None:
        spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 0}
        self.api.store(LEASES, {"metadata": {"name": "l", "namespace": "d"}, "spec": spec})

    @property
    def holder(self) -> object:
        return self.api.objects[LEASE]["spec"]["holderIdentity"] if LEASE in self.api.objects else None
