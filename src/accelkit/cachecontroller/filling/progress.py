"""Progress of the Jobs that fill volumes, with the current attempt, its messages, and the time of the next attempt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from accelkit.back_off import BackOff
from accelkit.cachecontroller.cluster_view import JOBS, ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.filling.objects import PODS, first, read_annotation
from accelkit.model.keys import CACHE_TRY_ANNOTATION
from accelkit.model.object_meta import read_time
from accelkit.texts import shorten

_BACK_OFF: Final = BackOff(10.0, 300.0)
_MAX_MESSAGE: Final = 600


class JobState(Enum):
    """State of a Job."""

    RUNNING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Attempt:
    """Last attempt to fill or check a volume.

    Attributes:
        name: name of the Job.
        number: number of the attempt, starting at 1.
        state: state of the Job.
        message: last message of the pod or of the Job.
        again_at: time of the next attempt after a failure, in seconds since 1970.
        uid: UID of the Job.
    """

    name: ObjectName
    number: int
    state: JobState
    message: str
    again_at: float
    uid: str


def find_attempt(namespace: str, base: str, key: str, cluster: ClusterView) -> Attempt | None:
    """Return the last attempt among the Jobs with names that start with `base`; None before the first attempt."""
    tries = [
        (_read_number(observed), name, observed)
        for name, observed in cluster.list_of_cache(JOBS, key)
        if name.namespace == namespace
        and name.name.startswith(f"{base}-")
        and observed.metadata.deletion_timestamp is None
    ]
    if not tries:
        return None
    number, name, observed = max(tries, key=lambda each: (each[0], each[1].name))
    ended = _read_ends(observed)
    message_of_pod = _read_pods(name, cluster)
    if "Complete" in ended:
        return Attempt(name, number, JobState.DONE, "", 0.0, observed.metadata.uid)
    if "Failed" not in ended:
        return Attempt(name, number, JobState.RUNNING, message_of_pod, 0.0, observed.metadata.uid)
    again_at = read_time(str(ended["Failed"].get("lastTransitionTime"))) + _BACK_OFF.compute(number)
    message = first((message_of_pod, str(ended["Failed"].get("message", "")), "the Job failed"))
    return Attempt(name, number, JobState.FAILED, message, again_at, observed.metadata.uid)


def has_ended(job: ObservedObject) -> bool:
    """Return whether a Job has completed or failed."""
    return not _read_ends(job).keys().isdisjoint({"Complete", "Failed"})


def _read_ends(job: ObservedObject) -> dict[str, dict[str, Any]]:
    return {str(each.get("type")): each for each in _list(job.status.get("conditions")) if each.get("status") == "True"}


def _read_number(job: ObservedObject) -> int:
    text = read_annotation(job, CACHE_TRY_ANNOTATION)
    return int(text) if text.isascii() and text.isdigit() else 0


def _read_pods(job: ObjectName, cluster: ClusterView) -> str:
    """Return the termination message from a Job's newest pod, or the reason why it does not start; empty if unknown."""
    pods = [
        (observed.metadata.creation_timestamp or "", name.name, observed)
        for name, observed in cluster.list_all(PODS)
        if name.namespace == job.namespace
        and (observed.metadata.labels or {}).get("batch.kubernetes.io/job-name") == job.name
    ]
    message_of_pod = [_read_pod(observed) for _, _, observed in sorted(pods, key=lambda each: each[:2], reverse=True)]
    return shorten(first(message_of_pod), _MAX_MESSAGE)


def _read_pod(pod: ObservedObject) -> str:
    states = [each.get("state") or {} for each in _list(pod.status.get("containerStatuses"))]
    ended = [each["terminated"] for each in states if isinstance(each.get("terminated"), dict)]
    waiting = [each["waiting"] for each in states if isinstance(each.get("waiting"), dict)]
    unplaced = [
        str(each.get("message", "")) for each in _list(pod.status.get("conditions")) if each.get("status") == "False"
    ]
    ended_messages = [" ".join(str(each.get("message", "")).split()) for each in ended if each.get("exitCode")]
    why = [f"{each.get('reason', '')}: {each.get('message', '')}".strip(": ") for each in waiting]
    return first((*ended_messages, str(pod.status.get("message", "")), *why, *unplaced))


def _list(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
