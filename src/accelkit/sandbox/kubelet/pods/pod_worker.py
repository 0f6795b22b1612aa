"""Worker for an admitted pod. It starts the containers in order, and writes the status until the pod terminates.

A pod terminates when its containers terminate, when it is deleted, when another client sets its final phase, or when a
client sets the exit annotation. The processes are stopped before the pod's status changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from accelkit.errors import ApiError
from accelkit.sandbox.kubelet.pods.containers import ContainerRunner, NodeContext, PodContext
from accelkit.sandbox.kubelet.pods.credentials import PodCredentials
from accelkit.sandbox.kubelet.pods.pod_status import Conditions, ContainerState, build_pod_status, write_status
from accelkit.sandbox.kubelet.pods.volumes import PodVolumes
from accelkit.sandbox.kubelet.wire import Container, Pod

__all__ = ["CONTAINERS_ANNOTATION", "EXIT_ANNOTATION", "PodWorker", "encode_containers"]

CONTAINERS_ANNOTATION = "sandbox.accelkit.io/containers"
EXIT_ANNOTATION = "sandbox.accelkit.io/exit"

_VANISHED_GRACE_SECONDS = 2.0
_SHUTDOWN_GRACE_SECONDS = 5.0
_LAST_STATUS_SECONDS = 10.0
_CREDENTIALS_RETRY_SECONDS = 1.0
_SETTLE_SECONDS = 0.02


class Ending(Enum):
    """The reason why a pod is terminated before its containers exit."""

    EXIT = auto()
    TERMINAL = auto()
    DELETED = auto()
    VANISHED = auto()


class PodWorker:
    """Worker for one pod. The devices of the pod are already allocated."""

    def __init__(self, node: NodeContext, pod: Pod) -> None:
        self._node = node
        self._changed = asyncio.Event()
        self._ending: Ending | None = None
        self._end = asyncio.Event()
        # A new pod is Pending. After a restart of the kubelet, a pod may have a different phase.
        self._phase = "Running" if pod.status.phase == "Running" else "Pending"
        self._containers = encode_containers(node, pod)
        self._start_time = pod.status.start_time or node.now()
        self._conditions = Conditions(node.now)
        self._volumes = PodVolumes(node.root, pod)
        self._context = PodContext(pod=pod, volumes=self._volumes, changed=self._changed.set)
        policy = pod.spec.restart_policy
        # An init container is restarted until it succeeds, unless the pod's policy is Never.
        init_policy = "Never" if policy == "Never" else "OnFailure"
        self._inits = {
            each.name: self._runner(each, "Always" if each.sidecar else init_policy)
            for each in pod.spec.init_containers
        }
        self._apps = {each.name: self._runner(each, policy) for each in pod.spec.containers}

    @property
    def pod(self) -> Pod:
        """The latest version of the pod from the API server."""
        return self._context.pod

    def update(self, pod: Pod) -> None:
        """Process a newer version of the pod, and terminate the pod if necessary."""
        self._context.pod = pod
        # The status may need a correction, because the node controller marks the pods of an unresponsive node as not
        # ready.
        self._changed.set()
        if pod.terminal:
            self.end(Ending.TERMINAL)
        elif pod.metadata.deletion_timestamp is not None:
            self._context.grace_seconds = float(pod.metadata.deletion_grace_period_seconds or 0)
            self.end(Ending.DELETED)
        elif EXIT_ANNOTATION in (pod.metadata.annotations or ()):
            self.end(Ending.EXIT)

    def mark_vanished(self) -> None:
        """Terminate the pod, because it no longer exists on the API server."""
        self._context.grace_seconds = _VANISHED_GRACE_SECONDS
        self.end(Ending.VANISHED)

    def end(self, ending: Ending) -> None:
        """Terminate the pod. If the method is called several times, only the first reason is used."""
        self._ending = self._ending or ending
        self._end.set()

    async def run(self) -> None:
        """Run the pod until it terminates. Cancellation stops the processes without changing the pod's status."""
        try:
            async with asyncio.TaskGroup() as group:
                publishing = group.create_task(self._publish(), name=f"status {self.pod.path}")
                containers = group.create_task(self._run_containers(), name=f"containers {self.pod.path}")
                end = group.create_task(self._end.wait())
                try:
                    await asyncio.wait({containers, end}, return_when=asyncio.FIRST_COMPLETED)
                except asyncio.CancelledError:
                    self._context.grace_seconds = _SHUTDOWN_GRACE_SECONDS
                    raise
                for task in (publishing, containers, end):
                    task.cancel()
        finally:
            self._volumes.remove()
        if self._ending not in (Ending.TERMINAL, Ending.VANISHED):
            await self._publish_end()

    def _runner(self, container: Container, policy: str) -> ContainerRunner:
        return ContainerRunner(self._node, self._context, container, policy=policy)

    def _states(self) -> dict[str, ContainerState]:
        return {name: runner.state for name, runner in (self._inits | self._apps).items()}

    async def _run_containers(self) -> None:
        async with asyncio.TaskGroup() as group:
            background: list[asyncio.Task[object]] = []
            try:
                await self._run_in_order(group, background)
            finally:
                for task in background:
                    task.cancel()

    async def _run_in_order(self, group: asyncio.TaskGroup, background: list[asyncio.Task[object]]) -> None:
        spec = self.pod.spec
        if any(self._node.runs_here(each) for each in (*spec.init_containers, *spec.containers)):
            for folder in self._volumes.list_account_folders():
                credentials = PodCredentials(self._node.api, self.pod, folder=folder, authority=self._node.authority)
                await self._write_credentials(credentials)
                background.append(group.create_task(credentials.keep_fresh()))
        for container in spec.init_containers:
            runner = self._inits[container.name]
            if container.sidecar:
                background.append(group.create_task(runner.run()))
                await runner.running.wait()
            elif await runner.complete() != 0:
                return
        self._phase = "Running"
        await asyncio.wait([group.create_task(runner.run()) for runner in self._apps.values()])

    async def _write_credentials(self, credentials: PodCredentials) -> None:
        while True:
            try:
                await credentials.write()
            except ApiError as exc:
                for state in self._states().values():
                    state.wait("ContainerCreating", str(exc))
                self._changed.set()
                await asyncio.sleep(_CREDENTIALS_RETRY_SECONDS)
            else:
                return

    async def _publish(self) -> None:
        written: dict[str, object] | None = None
        self._changed.set()
        while True:
            await self._changed.wait()
            # Changes occur in bursts, for example when several containers start.
            await asyncio.sleep(_SETTLE_SECONDS)
            self._changed.clear()
            status = self._status()
            if status != written or not _has_conditions(self.pod, status):
                await self._write(status)
                written = status

    async def _publish_end(self) -> None:
        by_exit = self._ending is Ending.EXIT
        code = int((self.pod.metadata.annotations or {}).get(EXIT_ANNOTATION) == "1") if by_exit else 0
        for name, state in self._states().items():
            if state.state != "terminated" or (by_exit and name in self._apps):
                state.end(self._node.now(), code if name in self._apps else 0)
        # A sidecar is stopped together with its pod, so its exit code is ignored.
        sidecars = {each.name for each in self.pod.spec.init_containers if each.sidecar}
        failed = any(state.exit_code for name, state in self._states().items() if name not in sidecars)
        self._phase = "Failed" if failed else "Succeeded"
        try:
            async with asyncio.timeout(_LAST_STATUS_SECONDS):
                await self._write(self._status())
        except TimeoutError:
            return

    async def _write(self, status: Mapping[str, object]) -> None:
        await write_status(self._node.api, self.pod, status, {CONTAINERS_ANNOTATION: self._containers})

    def _status(self) -> dict[str, object]:
        return build_pod_status(
            self.pod, self._states(), self._conditions, phase=self._phase, start_time=self._start_time
        )


def _has_conditions(pod: Pod, status: Mapping[str, Any]) -> bool:
    """Return whether the latest version of the pod from the API server has the conditions in this status."""
    current = {each.type: each.status for each in pod.status.conditions}
    return all(current.get(each["type"]) == each["status"] for each in status["conditions"])


def encode_containers(node: NodeContext, pod: Pod) -> str:
    """Return the device plugins' allocations for each container as JSON, which users and tests can read."""
    containers = {}
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        allocations = node.manager.find_allocations(pod.metadata.uid, container.name)
        responses = [each.response for _, each in sorted(allocations.items())]
        containers[container.name] = {
            "environment": {name: value for response in responses for name, value in response.environment.items()},
            "devices": [path for response in responses for path in response.devices],
            "mounts": [mount for response in responses for mount in response.mounts],
            "device_ids": {resource: sorted(each.device_ids) for resource, each in sorted(allocations.items())},
        }
    return msgspec.json.encode(containers).decode()
