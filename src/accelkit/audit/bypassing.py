"""Pods that were bound without the extender while a playbook run changed the cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypedDict

import msgspec

from accelkit.audit.comparison import AuditFinding, AuditKind
from accelkit.errors import AssignmentError
from accelkit.kube.client import ApiClient
from accelkit.kube.lease import RUN_LEASE
from accelkit.kube.listing import list_all
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import PODS, build_leases_path, build_object_path
from accelkit.kube.views.metadata import PartialObject
from accelkit.model.assignment import decode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, MIRROR_ANNOTATION
from accelkit.model.object_meta import ObjectIdentity

# With this selector, the API server omits terminated pods, such as the pods of finished Jobs.
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    last_transition_time: datetime | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


_Annotations = TypedDict(
    "_Annotations", {"kubernetes.io/config.mirror": str, "accelkit.io/assignment": str}, total=False
)


class _Meta(ObjectIdentity, rename="camel", kw_only=True):
    creation_timestamp: datetime
    annotations: _Annotations | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def bound_at(self) -> datetime:
        """The time when the pod was bound; for a pod that was created with a node name, its creation time."""
        found = (each.last_transition_time for each in self.status.conditions or () if each.type == "PodScheduled")
        return next(filter(None, found), self.metadata.creation_timestamp)

    @property
    def recorded(self) -> bool:
        """Whether the node agent wrote the first assignment of the pod, because the extender did not bind the pod."""
        try:
            return decode_assignment((self.metadata.annotations or {}).get(ASSIGNMENT_ANNOTATION, "")).recorded is True
        except AssignmentError:
            return False


async def find_run_start(api: ApiClient) -> datetime | None:
    """Return the start time of the current playbook run, according to the API server's clock; None if there is no run.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    found = await get_if_present(api, build_object_path(build_leases_path(RUN_LEASE.namespace), RUN_LEASE.name))
    began = msgspec.json.decode(found, type=PartialObject).metadata.creation_timestamp if found is not None else None
    return None if began is None else datetime.fromisoformat(began)


async def find_bypassing(api: ApiClient, since: datetime) -> list[AuditFinding]:
    """Return a finding for each pod that was bound without the extender since the given time and has not terminated.

    The assignment of such a pod is marked as recorded by the node agent. Static pods are excluded, because no scheduler
    binds them.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    pods, _ = await list_all(api, PODS, _Pod, query={"fieldSelector": _NOT_ENDED})
    return sorted((_build_finding(pod) for pod in pods if _is_bypassing(pod, since)), key=lambda each: each.pod)


def _is_bypassing(pod: _Pod, since: datetime) -> bool:
    static = MIRROR_ANNOTATION in (pod.metadata.annotations or {})
    return bool(pod.spec.node_name) and not static and pod.recorded and pod.bound_at >= since


def _build_finding(pod: _Pod) -> AuditFinding:
    node, name = pod.spec.node_name, f"{pod.metadata.namespace}/{pod.metadata.name}"
    message = f"pod {name} was bound to {node} without the extender during this run"
    return AuditFinding(node, "", name, AuditKind.BYPASSING, message)
