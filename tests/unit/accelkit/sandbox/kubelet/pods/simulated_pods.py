"""The pods of one simulated node on an API server in memory, with a device plugin that answers at once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from fake_api.watches import WatchedApi
from support.programs import write_accelkit
from support.waiting import until

from accelkit.errors import DevicePluginError
from accelkit.sandbox.kubelet.devices.checkpoint import load_checkpoint
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import AllocateResponse, PluginDevice, PluginOptions
from accelkit.sandbox.kubelet.pods.containers import NodeContext
from accelkit.sandbox.kubelet.pods.pods import Pods

Json = dict[str, Any]

DEADLINE = 30
CARD = "example.com/card"
IMAGE = "accelkit.io/accelkit:1"
PODS = "/api/v1/namespaces/default/pods"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

# As the API server adds it to pods.
ACCOUNT: Json = {"name": "kube-api-access-1", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
ACCOUNT_MOUNT: Json = {
    "volumeMounts": [{"name": "kube-api-access-1", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]
}

# Writes what it was given, waits for as long as it is told and ends as it is told.
PROGRAM = """
import json, os, signal, sys
print(json.dumps({"arguments": sys.argv[1:], "environment": dict(os.environ), "pid": os.getpid()}), flush=True)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open(os.environ["STARTED"], "w").close()
    while True:
        signal.pause()
if "wait" in sys.argv:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    open(os.environ["STARTED"], "w").close()
    signal.sigwait({signal.SIGTERM})
    sys.exit(7)
if "say" in sys.argv:
    open(sys.argv[2], "w").write("the last words")
if "once" in sys.argv:
    mark = os.environ["MARK"]
    first = not os.path.exists(mark)
    open(mark, "w").close()
    sys.exit(4 if first else 0)
sys.exit(int(sys.argv[-1]))
"""


class NodeApi(WatchedApi):
    """Grants tokens, too."""

    async def post(
        self,
        path: str,
        body: object,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        if path.endswith("/token"):
            await self._leave(await self._arrive("POST", path, body, query))
            return b'{"status": {"token": "granted"}}'
        return await super().post(path, body, query=query, headers=headers)


class Plugin:
    """Answers at once; `fails` is how often a container cannot be prepared."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.started: list[Sequence[str]] = []

    async def prefer(self, *, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:  # noqa: ARG002 - of a plugin
        return available

    async def allocate(self, device_ids: Sequence[str]) -> AllocateResponse:
        return AllocateResponse(environment={"CARDS": ",".join(device_ids)}, devices=("/dev/card",))

    async def pre_start(self, device_ids: Sequence[str]) -> None:
        if self.fails:
            self.fails -= 1
            raise DevicePluginError("the card sleeps")
        self.started.append(device_ids)


def manager_of(devices: int = 0, plugin: Plugin | None = None) -> DeviceManager:
    manager = DeviceManager(clock=lambda: 0.0, grace_seconds=1.0, chance=random.Random(1))  # noqa: S311 - the choice is to be repeatable
    if devices:
        manager.connect_plugin(CARD, PluginOptions(pre_start=True), plugin or Plugin())
        manager.update_devices(CARD, [PluginDevice(id=f"card-{each}", healthy=True) for each in range(devices)])
    return manager


def container(name: str = "main", image: str = "other", cards: int = 0, **fields: object) -> Json:
    resources = {"limits": {CARD: str(cards)}} if cards else {}
    return {"name": name, "image": image, "resources": resources, **fields}


class Node:
    """A node's pods; objects are as on the wire."""

    def __init__(
        self, folder: Path, *, manager: DeviceManager | None = None, environ: Mapping[str, str] | None = None
    ) -> None:
        self.api = NodeApi()
        self.root = folder
        self.manager = manager or manager_of()
        self.checkpoint = folder / "checkpoint"
        self.context = NodeContext(
            name="n",
            root=folder,
            image=IMAGE,
            api=self.api,
            manager=self.manager,
            authority=b"",
            environ=environ or {},
            now=lambda: NOW,
        )
        self.pods = Pods(self.context, self.checkpoint)

    def bind(
        self,
        name: str,
        *containers: Json,
        node: str = "n",
        created: str = "2026-01-01T00:00:00Z",
        status: Json | None = None,
        meta: Json | None = None,
        **spec: object,
    ) -> None:
        """Put a pod that is bound to a node onto the API server."""
        self.api.store(
            PODS,
            {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "uid": f"uid-{name}",
                    "creationTimestamp": created,
                    **(meta or {}),
                },
                "spec": {"nodeName": node, "containers": list(containers) or [container()], **spec},
                "status": {"phase": "Pending", **(status or {})},
            },
        )

    def annotate(self, name: str, key: str, value: str) -> None:
        self.api.objects[f"{PODS}/{name}"]["metadata"].setdefault("annotations", {})[key] = value

    def delete(self, name: str, grace: int = 0) -> None:
        """Ask for the deletion, as a user does; the kubelet is to do it."""
        meta = self.api.objects[f"{PODS}/{name}"]["metadata"]
        meta |= {"deletionTimestamp": "2026-01-02T03:04:06Z", "deletionGracePeriodSeconds": grace}

    def find(self, name: str) -> Any:
        """A pod as it is on the API server; None where it is not there."""
        return self.api.objects.get(f"{PODS}/{name}")

    async def until(self, name: str, wanted: Callable[[Any], object]) -> Any:
        """The first state of a pod that is as wanted; None is a pod that is not there."""
        return await until(lambda: self.find(name), accept=wanted, every=0.005)

    async def phase(self, name: str, phase: str) -> Any:
        return (await self.until(name, lambda pod: pod["status"]["phase"] == phase))["status"]

    async def state(self, name: str, kind: str, **facts: object) -> Any:
        """The status of a pod's first container once it is in a state."""

        def reached(pod: Any) -> bool:
            (status, *_) = pod["status"].get("containerStatuses") or [{}]
            state = status.get("state", {})
            return kind in state and facts.items() <= state[kind].items()

        return (await self.until(name, reached))["status"]["containerStatuses"][0]

    def given(self, name: str) -> Any:
        """What a pod's containers got from device plugins."""
        return json.loads(self.find(name)["metadata"]["annotations"]["sandbox.accelkit.io/containers"])

    def list_kept(self) -> frozenset[str]:
        """The UIDs of the pods whose devices a kubelet that starts now would know of."""
        manager = manager_of()
        load_checkpoint(self.checkpoint, manager)
        return manager.list_holders()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        task = asyncio.create_task(self.pods.run())
        try:
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, DEADLINE)


def ours(*args: str, name: str = "main", **fields: Any) -> Json:
    """A container of our own image, which runs `PROGRAM`."""
    return container(name, IMAGE, args=list(args), **fields)


def node_of(folder: Path, *, manager: DeviceManager | None = None) -> Node:
    """A node on which containers of our image run `PROGRAM`."""
    return Node(folder, environ=write_accelkit(folder / "program", PROGRAM), manager=manager)


def read_log(node: Node, pod: str, name: str = "main") -> list[Json]:
    """What each run of a container was given."""
    text = (node.root / f"var/log/pods/default_{pod}_uid-{pod}/{name}.log").read_text()
    return [json.loads(line) for line in text.splitlines()]


def variables(**values: object) -> list[Json]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


async def await_file(path: Path) -> None:
    await until(path.exists)


def read_conditions(status: Json) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}
