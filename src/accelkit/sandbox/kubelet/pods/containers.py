"""A container in a pod. It is simulated, or it is a process that is restarted according to the pod's restart policy."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from accelkit.back_off import BackOff
from accelkit.errors import AccelkitError, DevicePluginError, SandboxError
from accelkit.kube.client import ApiClient
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.pods.credentials import build_api_environment
from accelkit.sandbox.kubelet.pods.pod_status import ContainerState
from accelkit.sandbox.kubelet.pods.probes import follow_readiness
from accelkit.sandbox.kubelet.pods.processes import ContainerProcess, ProcessSpec, build_process_spec, strip_tag
from accelkit.sandbox.kubelet.pods.volumes import PodVolumes
from accelkit.sandbox.kubelet.wire import Container, Pod

__all__ = ["ContainerRunner", "NodeContext", "PodContext"]

log = logging.getLogger(__name__)

_BACK_OFF = BackOff(1.0, 30.0)
_RETRY_SECONDS = 5.0
# If a container has run for at least this time, its back-off delay is reset to the shortest value.
_HEALTHY_SECONDS = 600.0
# The maximum size of a termination message. If the message is missing, the end of the log replaces it, up to this size.
_MESSAGE_BYTES = 4096
_LOG_BYTES = 2048


@dataclass(frozen=True, kw_only=True)
class NodeContext:
    """The settings that all pods of a node share.

    Attributes:
        root: the folder that is the node's `/`.
        image: the image whose containers run as processes. The tag of the image is ignored.
        authority: the CA certificates of the API server, in PEM format.
        now: a function that returns the current time in UTC, in whole seconds as in Kubernetes objects.
    """

    name: str
    root: Path
    image: str
    api: ApiClient
    manager: DeviceManager
    authority: bytes
    environ: Mapping[str, str]
    now: Callable[[], datetime]

    def runs_here(self, container: Container) -> bool:
        """Return whether the container runs as a process. Otherwise, it is simulated."""
        return strip_tag(container.image) == strip_tag(self.image)


@dataclass(kw_only=True)
class PodContext:
    """The settings that all containers of a pod share. `grace_seconds` is the grace period of their processes."""

    pod: Pod
    volumes: PodVolumes
    changed: Callable[[], None]
    grace_seconds: float = 30.0


class ContainerRunner:
    """Runner of one container. `state` is the current state of the container.

    Args:
        policy: the restart policy: Always, OnFailure or Never.
    """

    def __init__(self, node: NodeContext, pod: PodContext, container: Container, *, policy: str) -> None:
        self.state = ContainerState()
        self.running = asyncio.Event()
        self._node = node
        self._pod = pod
        self._container = container
        self._policy = policy
        self._message: Path | None = None

    async def run(self) -> int:
        """Run and restart the container according to its policy; return the last exit code.

        Cancellation stops the process.
        """
        failures = 0
        while True:
            started = time.monotonic()
            code = await self._run_once()
            if self._policy == "Never" or (self._policy == "OnFailure" and code == 0):
                return code
            failures = 1 if time.monotonic() - started >= _HEALTHY_SECONDS else failures + 1
            delay = _BACK_OFF.compute(failures)
            self.state.wait("CrashLoopBackOff", f"back-off {delay:.0f}s restarting failed container")
            self._pod.changed()
            await asyncio.sleep(delay)
            self.state.restarts += 1

    async def complete(self) -> int:
        """Run an init container that is not a sidecar. A simulated init container succeeds immediately."""
        if self._node.runs_here(self._container):
            return await self.run()
        await self._prepare()
        self._ended(0)
        return 0

    async def _run_once(self) -> int:
        await self._prepare()
        if not self._node.runs_here(self._container):
            self._started(ready=True)
            # Wait until this task is cancelled, when the pod terminates.
            await asyncio.Event().wait()
        process = await self._start()
        self._started(ready=self._container.readiness_probe is None)
        try:
            async with asyncio.TaskGroup() as group:
                probing = group.create_task(self._probe())
                code = await process.wait()
                probing.cancel()
        finally:
            code = await process.stop(self._pod.grace_seconds)
            self._ended(code, self._read_termination_message(code))
        return code

    async def _prepare(self) -> None:
        while True:
            try:
                await self._node.manager.pre_start(self._pod.pod.metadata.uid, self._container.name)
            except DevicePluginError as exc:
                await self._retry("CreateContainerConfigError", exc)
            else:
                return

    async def _start(self) -> ContainerProcess:
        while True:
            try:
                return await ContainerProcess.start(self._spec(), log=self._name_log())
            except SandboxError as exc:
                await self._retry("CreateContainerError", exc)

    async def _retry(self, reason: str, exc: AccelkitError) -> None:
        log.warning(
            "container not started pod=%s container=%s reason=%s", self._pod.pod.path, self._container.name, exc
        )
        self.state.wait(reason, str(exc))
        self._pod.changed()
        await asyncio.sleep(_RETRY_SECONDS)

    async def _probe(self) -> None:
        if self._container.readiness_probe is None:
            return
        try:
            await follow_readiness(self._container, self._container.readiness_probe, self._set_ready)
        except SandboxError as exc:
            log.warning("readiness probe not started pod=%s reason=%s", self._pod.pod.path, exc)

    def _set_ready(self, ready: bool) -> None:  # noqa: FBT001 - a callback with one parameter
        self.state.ready = ready
        self._pod.changed()

    def _started(self, *, ready: bool) -> None:
        self.state.run(self._node.now(), ready=ready)
        self.running.set()
        self._pod.changed()

    def _ended(self, code: int, message: str = "") -> None:
        self.state.end(self._node.now(), code, message)
        self._pod.changed()

    def _name_log(self) -> Path:
        meta = self._pod.pod.metadata
        folder = self._node.root / "var/log/pods" / f"{meta.namespace}_{meta.name}_{meta.uid}"
        return folder / f"{self._container.name}.log"

    def _read_termination_message(self, code: int) -> str:
        """Return the termination message of the process, truncated as in a real kubelet."""
        message = _read_end(self._message, _MESSAGE_BYTES) if self._message is not None else ""
        if not message and code and self._container.termination_message_policy == "FallbackToLogsOnError":
            return _read_end(self._name_log(), _LOG_BYTES)
        return message

    def _spec(self) -> ProcessSpec:
        allocations = self._node.manager.find_allocations(self._pod.pod.metadata.uid, self._container.name)
        devices = [path for each in allocations.values() for path in each.response.devices]
        root = self._pod.volumes.mount(self._container, devices)
        self._message = Path(root.place(self._container.termination_message_path))
        return build_process_spec(
            self._pod.pod,
            self._container,
            root=root,
            environ=self._node.environ,
            plugin_environment={
                name: value for each in allocations.values() for name, value in each.response.environment.items()
            },
            api_environment=build_api_environment(self._node.api),
        )


def _read_end(path: Path, max_bytes: int) -> str:
    try:
        return path.read_bytes()[-max_bytes:].decode(errors="replace")
    except OSError:
        return ""
