"""The pods of one simulated node on an API server in memory, with a device plugin that answers at once."""

from __future__ import annotations

import asyncio
import json
import os
import random
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from aiohttp import web
from fake_api.watches import WatchedApi

from accelkit.errors import DevicePluginError
from accelkit.sandbox.kubelet.devices.checkpoint import load_checkpoint
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.devices.device_values import AllocateResponse, PluginDevice, PluginOptions
from accelkit.sandbox.kubelet.pods.containers import NodeContext
from accelkit.sandbox.kubelet.pods.pods import Pods

DEADLINE = 30
CARD = "example.com/card"
IMAGE = "accelkit.io/accelkit:1"
PODS = "/api/v1/namespaces/default/pods"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class NodeApi(WatchedApi):
    """Grants tokens, too."""

    async def post(self, path, body, *, query=None):
        if path.endswith("/token"):
            await self._leave(await self._arrive("POST", path, body, query))
            return b'{"status": {"token": "granted"}}'
        return await super().post(path, body, query=query)


class Plugin:
    """Answers at once; `fails` is how often a container cannot be prepared."""

    def __init__(self, fails=0):
        self.fails = fails
        self.started = []

    async def prefer(self, *, available, **_):
        return available

    async def allocate(self, device_ids):
        return AllocateResponse(environment={"CARDS": ",".join(device_ids)}, devices=["/dev/card"], mounts=[])

    async def pre_start(self, device_ids):
        if self.fails:
            self.fails -= 1
            raise DevicePluginError("the card sleeps")
        self.started.append(device_ids)


def manager_of(devices=0, plugin=None):
    manager = DeviceManager(clock=lambda: 0.0, grace_seconds=1.0, chance=random.Random(1))  # noqa: S311 - the choice is to be repeatable
    if devices:
        manager.connect_plugin(CARD, PluginOptions(pre_start=True), plugin or Plugin())
        manager.update_devices(CARD, [PluginDevice(id=f"card-{each}", healthy=True) for each in range(devices)])
    return manager


def write_program(folder, text):
    """Put a program in the place of accelkit's own command; return the environment that finds it."""
    package = folder / "program" / "accelkit"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(text)
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}


@asynccontextmanager
async def serve(answer):
    """Serve HTTP requests by a function; yields the port."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def container(name="main", image="other", cards=0, **fields):
    resources = {"limits": {CARD: str(cards)}} if cards else {}
    return {"name": name, "image": image, "resources": resources, **fields}


class Node:
    """A node's pods; objects are as on the wire."""

    def __init__(self, folder, *, manager=None, environ=None):
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
            authority=None,
            environ=environ or {},
            now=lambda: NOW,
        )
        self.pods = Pods(self.context, self.checkpoint)

    def bind(self, name, *containers, node="n", created="2026-01-01T00:00:00Z", status=None, meta=None, **spec):
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

    def annotate(self, name, key, value):
        self.api.objects[f"{PODS}/{name}"]["metadata"].setdefault("annotations", {})[key] = value

    def delete(self, name, grace=0):
        """Ask for the deletion, as a user does; the kubelet is to do it."""
        meta = self.api.objects[f"{PODS}/{name}"]["metadata"]
        meta |= {"deletionTimestamp": "2026-01-02T03:04:06Z", "deletionGracePeriodSeconds": grace}

    def find(self, name):
        return self.api.objects.get(f"{PODS}/{name}")

    async def until(self, name, wanted):
        """The first state of a pod that is as wanted; None is a pod that is not there."""
        async with asyncio.timeout(DEADLINE):
            while not wanted(seen := self.find(name)):
                await asyncio.sleep(0.005)
        return seen

    async def phase(self, name, phase):
        return (await self.until(name, lambda pod: pod["status"]["phase"] == phase))["status"]

    async def state(self, name, kind, **facts):
        """The status of a pod's first container once it is in a state."""

        def reached(pod):
            (status, *_) = pod["status"].get("containerStatuses") or [{}]
            state = status.get("state", {})
            return kind in state and facts.items() <= state[kind].items()

        return (await self.until(name, reached))["status"]["containerStatuses"][0]

    def given(self, name):
        """What a pod's containers got from device plugins."""
        return json.loads(self.find(name)["metadata"]["annotations"]["sandbox.accelkit.io/containers"])

    def list_kept(self):
        """The UIDs of the pods whose devices a kubelet that starts now would know of."""
        manager = manager_of()
        load_checkpoint(self.checkpoint, manager)
        return manager.list_holders()

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.pods.run())
        try:
            yield self
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, DEADLINE)
