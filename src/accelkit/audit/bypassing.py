"""Pods that kube-scheduler bound without asking the extender while a run of the playbooks changed the cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from accelkit.audit.comparison import AuditFinding, AuditKind
from accelkit.kube.client import ApiClient
from accelkit.kube.lease import RUN_LEASE
from accelkit.kube.listing import list_all
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_leases_path, build_object_path, build_pod_path
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import MIRROR_ANNOTATION

# With this reason a node agent reports a pod that it found without an assignment, and counted.
_RECORDED: Final = "AssignmentRecorded"


class _Lease(msgspec.Struct):
    metadata: ObjectMeta


class _Involved(msgspec.Struct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Event(msgspec.Struct, rename="camel"):
    metadata: ObjectMeta
    reason: str = ""
    involved_object: _Involved = msgspec.field(default_factory=_Involved)


class _Condition(msgspec.Struct, rename="camel"):
    type: str
    last_transition_time: datetime | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    uid: str
    creation_timestamp: datetime
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def bound_at(self) -> datetime:
        """When the API server bound it; of a pod that was created with its node, when it was created."""
        found = (each.last_transition_time for each in self.status.conditions or () if each.type == "PodScheduled")
        return next(filter(None, found), self.metadata.creation_timestamp)


_pod = msgspec.json.Decoder(_Pod)


async def find_run_start(api: ApiClient) -> datetime | None:
    """Return when the run began that changes the cluster now, by the API server's clock; None where none does.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    found = await get_if_present(api, build_object_path(build_leases_path(RUN_LEASE.namespace), RUN_LEASE.name))
    began = msgspec.json.decode(found, type=_Lease).metadata.creation_timestamp if found is not None else None
    return None if began is None else datetime.fromisoformat(began)


async def find_bypassing(api: ApiClient, since: datetime) -> list[AuditFinding]:
    """Return the pods that were bound without the extender from then on and have not ended.

    They are counted by now: a node agent records an Event for each of them. Static pods are left out: no
    scheduler binds them.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    query = {"fieldSelector": f"reason={_RECORDED}"}
    events, _ = await list_all(api, build_collection_path("v1", "events"), _Event, query=query)
    found: dict[str, AuditFinding] = {}
    for of in (event.involved_object for event in events):
        if of.kind != "Pod" or of.uid in found:
            continue
        answer = await get_if_present(api, build_pod_path(of.namespace, of.name))
        pod = None if answer is None else _pod.decode(answer)
        if pod is None or pod.metadata.uid != of.uid or pod.status.phase in ("Succeeded", "Failed"):
            continue
        if pod.bound_at >= since and MIRROR_ANNOTATION not in (pod.metadata.annotations or {}):
            name = f"{of.namespace}/{of.name}"
            message = f"pod {name} was bound to {pod.spec.node_name} without the extender during this run"
            found[of.uid] = AuditFinding(pod.spec.node_name, "", name, AuditKind.BYPASSING, message)
    return sorted(found.values(), key=lambda each: each.pod)
