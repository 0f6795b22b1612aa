"""Reader for the pod to explain, and for kube-scheduler's message about the pod."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_pod_path
from accelkit.model.pending_pod import PendingPod
from accelkit.model.pod import SCHEDULED

# Discard this annotation, because it is not needed and is often half the size of a pod.
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class SchedulerWords(msgspec.Struct, frozen=True):
    """The condition PodScheduled. The reason and message are empty if kube-scheduler has not processed the pod."""

    scheduler: str
    reason: str = ""
    message: str = ""


class PodInQuestion(msgspec.Struct, frozen=True):
    """A pod, and kube-scheduler's message about the pod."""

    pod: PendingPod
    words: SchedulerWords


class _Spec(msgspec.Struct, rename="camel"):
    scheduler_name: str = "default-scheduler"


class _Scheduling(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


async def read_pod_in_question(api: ApiClient, namespace: str, name: str) -> PodInQuestion:
    """Read a pod and kube-scheduler's message about the pod.

    Raises:
        ApiError: the API server does not respond.
        ServiceError: the pod does not exist, cannot be decoded, or the user does not have permission to read it.
    """
    try:
        answer = await api.get(build_pod_path(namespace, name))
        pod, scheduling = msgspec.json.decode(answer, type=PendingPod), msgspec.json.decode(answer, type=_Scheduling)
    except ApiError as exc:
        if exc.not_found:
            raise ServiceError(
                f"pod {name!r} does not exist in namespace {namespace!r}",
                next_step="set the pod's namespace with -n; `kubectl get pods -A` lists all pods",
            ) from exc
        if exc.forbidden:
            raise ServiceError(
                f"cannot read the pod: {exc.message}",
                next_step=f"ask an administrator for the ClusterRole `view` in namespace {namespace}",
            ) from exc
        raise
    except UNREADABLE as exc:
        raise ServiceError(f"cannot decode pod {namespace}/{name}: {exc}") from exc
    if pod.metadata.annotations:
        pod.metadata.annotations.pop(_APPLIED, None)
    pod.metadata.labels = None
    return PodInQuestion(pod, _find_words(pod, scheduling.spec.scheduler_name))


def _find_words(pod: PendingPod, scheduler: str) -> SchedulerWords:
    for each in pod.status.conditions or ():
        if each.type == SCHEDULED and each.status == "False":
            return SchedulerWords(scheduler, each.reason or "", each.message or "")
    return SchedulerWords(scheduler)
