"""Reads the pod that somebody asks about, with the words of kube-scheduler on it."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_pod_path
from accelkit.model.asked_pod import AskedPod

# Not read, and often half of a pod.
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class SchedulerWords(msgspec.Struct, frozen=True):
    """What kube-scheduler says of a pod in its condition PodScheduled; empty where it has not said anything yet."""

    scheduler: str
    reason: str = ""
    message: str = ""


class PodInQuestion(msgspec.Struct, frozen=True):
    """A pod, and what kube-scheduler says of it."""

    pod: AskedPod
    words: SchedulerWords


class _Condition(msgspec.Struct):
    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    scheduler_name: str = "default-scheduler"


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Scheduling(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


async def read_pod_in_question(api: ApiClient, namespace: str, name: str) -> PodInQuestion:
    """Read a pod.

    Raises:
        ApiError: the API server does not answer.
        ServiceError: there is no such pod, we may not read it, or it cannot be read.
    """
    try:
        answer = await api.get(build_pod_path(namespace, name))
        pod, scheduling = msgspec.json.decode(answer, type=AskedPod), msgspec.json.decode(answer, type=_Scheduling)
    except ApiError as exc:
        if exc.not_found:
            raise ServiceError(
                f"there is no pod {name!r} in namespace {namespace!r}",
                next_step="name its namespace with -n; `kubectl get pods -A` lists all",
            ) from exc
        if exc.forbidden:
            raise ServiceError(
                f"the pod may not be read: {exc.message}",
                next_step=f"have a Role with get of pods in namespace {namespace} bound to you, as `view` is",
            ) from exc
        raise
    except UNREADABLE as exc:
        raise ServiceError(f"pod {namespace}/{name} cannot be read: {exc}") from exc
    if pod.metadata.annotations:
        pod.metadata.annotations.pop(_APPLIED, None)
    pod.metadata.labels = None
    return PodInQuestion(pod, _find_words(scheduling))


def _find_words(scheduling: _Scheduling) -> SchedulerWords:
    conditions = scheduling.status.conditions or ()
    said = next((each for each in conditions if each.type == "PodScheduled" and each.status == "False"), None)
    name = scheduling.spec.scheduler_name
    return SchedulerWords(name) if said is None else SchedulerWords(name, said.reason or "", said.message or "")
