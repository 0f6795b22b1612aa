"""The status of a pod, built from the states of its containers and written to the API server."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, Literal

import msgspec

from accelkit.back_off import BackOff
from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.sandbox.kubelet.pods.processes import NODE_ADDRESS
from accelkit.sandbox.kubelet.wire import Container, Pod

__all__ = ["Conditions", "ContainerState", "build_failed_status", "build_pod_status", "write_status"]

log = logging.getLogger(__name__)

_BACK_OFF = BackOff(0.2, 5.0)
_TOO_MANY = 429


@dataclass(kw_only=True)
class ContainerState:
    """The state of one container. `started_at` and `finished_at` are None until the container starts and terminates."""

    state: Literal["waiting", "running", "terminated"] = "waiting"
    reason: str = "PodInitializing"
    message: str = ""
    ready: bool = False
    exit_code: int = 0
    restarts: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    last: dict[str, Any] = field(default_factory=dict)

    def run(self, now: datetime, *, ready: bool) -> None:
        """Mark the container as running."""
        self.state, self.started_at, self.ready = "running", now, ready

    def end(self, now: datetime, exit_code: int, message: str = "") -> None:
        """Mark the container as terminated, with its termination message."""
        self.state, self.exit_code, self.finished_at, self.ready = "terminated", exit_code, now, False
        self.started_at = self.started_at or now
        self.reason = "Error" if exit_code else "Completed"
        self.message = message

    def wait(self, reason: str, message: str) -> None:
        """Mark the container as waiting to be started or restarted."""
        if self.state == "terminated":
            self.last = self.encode(container_id="")
        self.state, self.reason, self.message, self.ready = "waiting", reason, message, False

    def encode(self, container_id: str) -> dict[str, Any]:
        """Return the state as a ContainerState of the Kubernetes API."""
        match self.state:
            case "waiting":
                return {"waiting": {"reason": self.reason, "message": self.message}}
            case "running":
                return {"running": {"startedAt": self.started_at}}
            case "terminated":
                ended = {"exitCode": self.exit_code, "reason": self.reason, "containerID": container_id}
                if self.message:
                    ended["message"] = self.message
                return {"terminated": {**ended, "startedAt": self.started_at, "finishedAt": self.finished_at}}


class Conditions:
    """The conditions of a pod, with the time of the last change of each condition."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since: dict[str, tuple[bool, datetime]] = {}

    def update(self, values: Mapping[str, bool]) -> list[dict[str, str | datetime | None]]:
        """Set the conditions and return them as PodConditions of the Kubernetes API."""
        for kind, value in values.items():
            if kind not in self._since or self._since[kind][0] != value:
                self._since[kind] = (value, self._now())
        return [
            {
                "type": kind,
                "status": "True" if value else "False",
                "lastProbeTime": None,
                "lastTransitionTime": self._since[kind][1],
            }
            for kind, value in values.items()
        ]


def build_pod_status(
    pod: Pod, states: Mapping[str, ContainerState], conditions: Conditions, *, phase: str, start_time: datetime
) -> dict[str, Any]:
    """Return the complete status of an admitted pod."""
    inits, apps = pod.spec.init_containers, pod.spec.containers
    initialized = all(
        states[each.name].state == "running" if each.sidecar else _has_completed(states[each.name]) for each in inits
    )
    ended = phase in ("Succeeded", "Failed")
    ready = not ended and all(states[each.name].ready for each in apps)
    values = {
        "PodReadyToStartContainers": not ended,
        "Initialized": initialized or ended,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": True,
    }
    return {
        "phase": phase,
        "startTime": start_time,
        "hostIP": NODE_ADDRESS,
        "hostIPs": [{"ip": NODE_ADDRESS}],
        "podIP": NODE_ADDRESS,
        "podIPs": [{"ip": NODE_ADDRESS}],
        "conditions": conditions.update(values),
        "initContainerStatuses": _build_statuses(pod, inits, states),
        "containerStatuses": _build_statuses(pod, apps, states),
    }


def build_failed_status(message: str, *, now: datetime) -> dict[str, Any]:
    """Return the status of a pod that the kubelet has not admitted."""
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message, "startTime": now}


async def write_status(
    api: ApiClient, pod: Pod, status: Mapping[str, Any], annotations: Mapping[str, str] | None = None
) -> None:
    """Write the status and annotations of a pod; retry until the API server accepts or rejects the request."""
    # Because of the UID, the API server rejects the patch if a newer pod has the same name.
    metadata: dict[str, Any] = {"uid": pod.metadata.uid}
    if annotations:
        metadata["annotations"] = annotations
    for failures in count(1):
        try:
            await api.patch(f"{pod.path}/status", {"metadata": metadata, "status": status})
        except ApiError as exc:
            if exc.not_found or exc.conflict:
                return
            log.warning("status not written pod=%s reason=%s", pod.path, exc)
            if not exc.unanswered and exc.status != _TOO_MANY:
                return
            await asyncio.sleep(_BACK_OFF.compute(failures))
        else:
            return


def _has_completed(state: ContainerState) -> bool:
    return state.state == "terminated" and state.exit_code == 0


def _build_statuses(
    pod: Pod, containers: Iterable[Container], states: Mapping[str, ContainerState]
) -> list[dict[str, Any]]:
    return [_build_container_status(pod, each, states[each.name]) for each in containers]


def _build_container_status(pod: Pod, container: Container, state: ContainerState) -> dict[str, Any]:
    # Container runtimes use IDs with 64 hexadecimal digits, and programs that parse cgroup names expect this format.
    run = f"{pod.metadata.uid}/{container.name}/{state.restarts}"
    identity = f"simulated://{hashlib.sha256(run.encode()).hexdigest()}"
    running = state.state == "running"
    plain_init = container in pod.spec.init_containers and not container.sidecar
    # The API server accepts in-place changes of a pod's CPU and memory only if the pod's status contains the resources.
    resources = {"resources": msgspec.to_builtins(container.resources)} if running else {}
    return {
        **resources,
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": "" if state.state == "waiting" else identity,
        "ready": _has_completed(state) if plain_init else state.ready,
        "started": running,
        "restartCount": state.restarts,
        "state": state.encode(identity),
        "lastState": state.last,
    }
