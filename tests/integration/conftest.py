"""A real control plane for the tests: a sandbox with nothing installed, and one on which site.yml has run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from cache_definitions import CacheKinds
from ports import free_port
from support.waiting import DEADLINE, until
from waiting_workloads import WaitingWorkloads

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.layout import SandboxPaths

REPOSITORY = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PODS = "/api/v1/namespaces/default/pods"
# Of one test. A run of site.yml takes a minute on two idle cores, and may take ten times as long on busy ones.
LEAST_TIMEOUT = 1200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test enough time, and let tests of servers that come and go leave a socket to the collector.

    A request that is cancelled while it connects leaves a socket that asyncio closes in a later turn, which nobody can
    await; where the test's event loop ends first, the collector closes it.
    """
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"))
            given = item.get_closest_marker("timeout")
            seconds = max(LEAST_TIMEOUT, given.args[0] if given else 0)
            item.add_marker(pytest.mark.timeout(seconds), append=False)


def ansible_playbook(
    *arguments: str | Path, environ: dict[str, str], seconds: float = 600, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `ansible-playbook …` from the checkout."""
    command = [BIN / "ansible-playbook", *arguments]
    given = {"cwd": REPOSITORY, "env": environ, "timeout": seconds, **options}
    return subprocess.run(command, capture_output=True, text=True, check=False, **given)


class Sandbox:
    """A sandbox below a folder with a name of 90 characters, as long ones of homes are."""

    def __init__(self, nodes: str | None = None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ak-"))
        self.paths = SandboxPaths(self._folder / f"{'long-':s<90}")
        self.port = free_port()
        arguments = ["up", "--root", str(self.paths.root), "--extender-port", str(self.port)]
        if nodes is not None:
            (self._folder / "nodes.yaml").write_text(nodes)
            arguments += ["--nodes", str(self._folder / "nodes.yaml")]
        try:
            self.command("sandbox", *arguments)
        except BaseException:
            self.down()
            raise
        self.facts = self.paths.read_facts()
        self.kubeconfig = Path(self.facts.kubeconfig)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ACCELKIT_SANDBOX": str(self.paths.root),
            "ACCELKIT_EXTENDER": self.facts.extender_url if hasattr(self, "facts") else "",
            "KUBECONFIG": str(self.paths.build_kubeconfig_path("admin")),
            "ANSIBLE_NOCOLOR": "1",
        }

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `accelkit …`."""
        command = [sys.executable, "-m", "accelkit", *arguments]
        done = subprocess.run(command, env=self.environ, capture_output=True, text=True, timeout=240, check=False)
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def playbook(self, name: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `ansible-playbook … -i inventories/sandbox` from the checkout."""
        done = ansible_playbook(name, "-i", "inventories/sandbox", *arguments, environ=self.environ, seconds=1100)
        assert not check or done.returncode == 0, f"{name} {arguments}:\n{done.stdout}\n{done.stderr}"
        return done

    def inspect(self, *arguments: str) -> dict:
        """Return `accelkit inspect -o json`."""
        return json.loads(self.command("inspect", "-o", "json", *arguments).stdout)

    def used_bytes(self) -> int:
        """Return what the extender has charged; quicker than `accelkit inspect`, which is a process."""
        with urllib.request.urlopen(f"{self.facts.extender_url}/inspect", timeout=60) as answer:  # noqa: S310 - its own URL
            return json.load(answer)["totals"]["used_bytes"]

    def down(self) -> None:
        self.command("sandbox", "down", "--root", str(self.paths.root))
        shutil.rmtree(self._folder)


class Cluster:
    """The API of a sandbox, in words of the tests."""

    def __init__(self, api: ApiClient, sandbox: Sandbox) -> None:
        self.api = api
        self.sandbox = sandbox

    async def get(self, path: str) -> dict:
        return msgspec.json.decode(await self.api.get(path))

    async def create_pod(self, name: str, *, node: str | None = "node-1", **spec: object) -> dict:
        """Create a pod; `memory` or `cards` for one container, or `containers` and `init` as {name: limits}."""
        memory, cards = spec.pop("memory", None), spec.pop("cards", None)
        containers = spec.pop("containers", None) or {
            "main": {"accelkit.io/memory": memory} if memory is not None else {"accelkit.io/cards": cards}
        }
        init, annotations = spec.pop("init", {}), spec.pop("annotations", {})
        body = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "containers": [_container(n, limits) for n, limits in containers.items()],
                "initContainers": [_container(n, limits) for n, limits in init.items()],
                "nodeSelector": {"kubernetes.io/hostname": node} if node else {},
                **spec,
            },
        }
        return msgspec.json.decode(await self.api.post(PODS, body))

    async def create_bound_pod(self, name: str, node: str, **spec: object) -> None:
        """Create a pod and bind it as another scheduler would, past the extender."""
        await self.create_pod(name, node=None, schedulerName="another", **spec)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        await self.api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})

    async def until(self, name: str, accept, *, seconds: float = DEADLINE) -> dict:
        """Wait until `accept(pod)` is true; return the pod."""
        return await until(lambda: self.get(f"{PODS}/{name}"), accept=accept, seconds=seconds, every=0.1)

    async def told(self, reason: str, *names: str) -> None:
        """Wait until an Event tells this of one of the pods; it is written after what it tells of."""

        async def list_reasons() -> set[str]:
            events = (await self.get(PODS.replace("pods", "events")))["items"]
            return {each["reason"] for each in events if each["involvedObject"]["name"] in names}

        await until(list_reasons, accept=lambda reasons: reason in reasons, every=0.1)

    async def running(self, name: str) -> dict:
        """Wait until a pod runs; return what its containers were given."""
        pod = await self.until(name, lambda pod: pod["status"]["phase"] in ("Running", "Failed"))
        assert pod["status"]["phase"] == "Running", pod["status"]
        return json.loads(pod["metadata"]["annotations"]["sandbox.accelkit.io/containers"])

    async def refused(self, name: str, *parts: str) -> str:
        """Wait until the scheduler found no node, and its latest try told all of this; return its words."""

        def words(pod: dict) -> str:
            conditions = pod["status"].get("conditions", ())
            return next((c["message"] for c in conditions if c.get("reason") == "Unschedulable"), "")

        return words(await self.until(name, lambda pod: words(pod) and all(part in words(pod) for part in parts)))

    async def scheduler_runs(self, config: str) -> None:
        """Wait until kube-scheduler is ready with this configuration."""
        digest = hashlib.sha256(config.encode()).hexdigest()
        await until(
            lambda: json.loads(Path(self.sandbox.facts.scheduler_state).read_text()),
            accept=lambda state: state["ready"] and state["config_sha256"] == digest,
            every=0.1,
        )

    async def delete_pods(self) -> None:
        """Delete all pods of the test at once, and wait until they are gone and the ledger is empty."""
        for pod in (await self.get(PODS))["items"]:
            try:
                await self.api.delete(f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
            except ApiError as exc:
                if exc.reason != "NotFound":
                    raise
        await until(lambda: self.get(PODS), accept=lambda pods: not pods["items"], every=0.1)
        await until(lambda: not self.sandbox.used_bytes(), every=0.1)


def _container(name: str, limits: dict) -> dict:
    limits = dict(limits)
    restart = limits.pop("restartPolicy", None)
    container = {"name": name, "image": "busybox", "resources": {"limits": {k: str(v) for k, v in limits.items()}}}
    return {**container, "restartPolicy": restart} if restart else container


@pytest.fixture(scope="session")
def control_plane():
    """A sandbox with one node and nothing installed."""
    with Sandbox("nodes: [{name: node-1, cards: [{memory: 16GiB}]}]") as sandbox:
        yield sandbox


@pytest.fixture
async def api(control_plane):
    """An administrator of the bare control plane."""
    async with ApiClient(load_connection(control_plane.kubeconfig)) as client:
        yield client


@pytest.fixture(scope="session")
def cache_kinds(control_plane):
    """The kinds of kernel caches, which tests define in the control plane and forget there."""
    return CacheKinds(control_plane)


@pytest.fixture(scope="module")
def defined(cache_kinds):
    """The API server knows the kinds of kernel caches; the file's objects of them are deleted at its end."""
    asyncio.run(cache_kinds.define())
    yield cache_kinds
    asyncio.run(cache_kinds.empty())


@pytest.fixture(scope="session")
def installed():
    """A sandbox on which site.yml has run while pods waited for cards; `waited` is what became of these."""
    with Sandbox() as sandbox:
        # node-1 has eight cards of 16 GiB. Wherever the pods go, one stays free for the checks at the end of site.yml.
        sizes = {
            "shares": (8, {"accelkit.io/memory": "8"}, 8),
            "too-large": (2, {"accelkit.io/memory": "40"}, 0),
            "whole": (2, {"accelkit.io/cards": "1"}, 2),
        }
        sandbox.waited = WaitingWorkloads(sandbox, sizes)
        asyncio.run(sandbox.waited.create())
        sandbox.playbook("site.yml")
        asyncio.run(sandbox.waited.settle())
        asyncio.run(sandbox.waited.delete())
        yield sandbox


@pytest.fixture
async def cluster(installed):
    """The installed sandbox, left without pods after the test."""
    async with ApiClient(load_connection(installed.kubeconfig), timeout_seconds=DEADLINE) as api:
        cluster = Cluster(api, installed)
        yield cluster
        await cluster.delete_pods()
