"""Deployments whose pods wait for cards before anybody offers any, and what became of their pods."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

DEADLINE = 60.0
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
EVENTS = PODS.replace("pods", "events")


class WaitingWorkloads:
    """Deployments in the default namespace.

    Args:
        sandbox: the cluster.
        sizes: by the Deployment's name, its number of pods, the limits of each, and how many of them can run.
    """

    def __init__(self, sandbox: Any, sizes: dict[str, tuple[int, dict[str, str], int]]) -> None:
        self._sandbox = sandbox
        self._sizes = sizes
        self.pods: list[dict[str, Any]] = []
        self.reasons: set[str] = set()

    async def create(self) -> None:
        """Create the Deployments, and wait until all their pods exist."""
        async with self._connect() as api:
            for name, (replicas, limits, _) in self._sizes.items():
                await api.post(DEPLOYMENTS, _write_deployment(name, replicas, limits))
            count = sum(size[0] for size in self._sizes.values())
            await until(lambda: self._list(api), accept=lambda pods: len(pods) >= count, seconds=DEADLINE, every=0.2)

    async def settle(self) -> None:
        """Wait until as many pods run as there is room for; note all pods and the reasons of their Events."""
        async with self._connect() as api:
            deadline = time.monotonic() + DEADLINE
            while True:
                self.pods = await self._list(api)
                running = {name: len(self.list_pods(name, "Running")) for name in self._sizes}
                if running == {name: size[2] for name, size in self._sizes.items()}:
                    break
                if time.monotonic() > deadline:
                    break
                await asyncio.sleep(0.2)
            events = json.loads(await api.get(EVENTS))["items"]
            self.reasons = {each["reason"] for each in events if self._is_ours(each["involvedObject"]["name"])}

    async def delete(self) -> None:
        """Delete the Deployments and their pods, and wait until nothing is held."""
        async with self._connect() as api:
            for name in self._sizes:
                await api.delete(f"{DEPLOYMENTS}/{name}", {"propagationPolicy": "Background"})
            await until(lambda: self._list(api), accept=lambda pods: not pods, seconds=DEADLINE, every=0.2)
            await until(lambda: not self._sandbox.used_bytes(), seconds=DEADLINE, every=0.2)

    def list_pods(self, name: str, phase: str) -> list[dict[str, Any]]:
        """Return the pods of a Deployment that were in a phase."""
        found = [pod for pod in self.pods if pod["metadata"]["labels"]["app"] == name]
        return [pod for pod in found if pod["status"].get("phase") == phase]

    def check(self) -> None:
        """Fail unless every pod was placed by the extender, and none was refused by its kubelet."""
        failed = [pod["status"].get("reason") for pod in self.pods if pod["status"].get("phase") == "Failed"]
        assert failed == [], f"{len(failed)} pods failed"
        running = {name: len(self.list_pods(name, "Running")) for name in self._sizes}
        conditions = {_read_condition(pod) for pod in self.pods}
        assert running == {name: size[2] for name, size in self._sizes.items()}, f"{running}: {conditions}"
        for pod in self.pods:
            assigned = "accelkit.io/assignment" in pod["metadata"].get("annotations", {})
            assert assigned == ("nodeName" in pod["spec"]), pod["metadata"]["name"]
        # The agent's record of a pod that was bound without the extender.
        assert "AssignmentRecorded" not in self.reasons

    def _connect(self) -> ApiClient:
        return ApiClient(load_connection(self._sandbox.kubeconfig))

    def _is_ours(self, name: str) -> bool:
        return any(name.startswith(f"{each}-") for each in self._sizes)

    async def _list(self, api: ApiClient) -> list[dict[str, Any]]:
        found = json.loads(await api.get(PODS))["items"]
        return [pod for pod in found if pod["metadata"].get("labels", {}).get("app") in self._sizes]


def _read_condition(pod: dict[str, Any]) -> str:
    return "; ".join(each.get("message", "") for each in pod["status"].get("conditions", ()))


def _write_deployment(name: str, replicas: int, limits: dict[str, str]) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
