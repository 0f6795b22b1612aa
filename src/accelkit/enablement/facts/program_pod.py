"""State of an accelkit program on a node, derived from the program's pods on that node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from accelkit.enablement.facts.objects import OwnPod
from accelkit.kube.views.pod import ContainerStatus


class PodState(Enum):
    """State of a program's pod on a node."""

    READY = auto()
    MISSING = auto()
    CRASHES = auto()
    WAITS = auto()


@dataclass(frozen=True, slots=True)
class ProgramPod:
    """The state of a program's pod, with a description that is part of a sentence."""

    state: PodState
    description: str


def find_program_pod(pods: Sequence[OwnPod]) -> ProgramPod:
    """Return the state of a program's pods on one node; two pods may exist while one replaces the other."""
    if not pods:
        return ProgramPod(PodState.MISSING, "its pod is missing on the node")
    if ready := next((pod for pod in pods if pod.ready), None):
        return ProgramPod(PodState.READY, f"pod {ready.metadata.name} is ready")
    newest = max(pods, key=lambda pod: pod.metadata.creation_timestamp or "")
    name = newest.metadata.name
    for container in newest.status.container_statuses or ():
        if not container.ready and (crash := _describe_crash(container)):
            return ProgramPod(PodState.CRASHES, f"pod {name}: container {container.name} {crash}")
    return ProgramPod(PodState.WAITS, f"pod {name} is {_describe_wait(newest)}")


def _describe_crash(container: ContainerStatus) -> str:
    ended = container.state.terminated or container.last_state.terminated
    if ended is None:
        return ""
    times = f" after {container.restart_count} restarts" if container.restart_count else ""
    cause = ": ".join(filter(None, (ended.reason, ended.message)))
    return f"exited with code {ended.exit_code}{times}{f' ({cause})' if cause else ''}"


def _describe_wait(pod: OwnPod) -> str:
    for container in pod.status.container_statuses or ():
        if not container.ready and (waiting := container.state.waiting) is not None and waiting.reason:
            message = f": {waiting.message}" if waiting.message else ""
            return f"waiting, container {container.name}: {waiting.reason}{message}"
    cause = ": ".join(filter(None, (pod.status.reason, pod.status.message)))
    return f"{pod.status.phase or 'without a phase'} and not ready{f' ({cause})' if cause else ''}"
