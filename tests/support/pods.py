"""Factories of pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod, PodRef

Json: TypeAlias = dict[str, Any]
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
REFUSED = {"conditions": [UNSCHEDULABLE]}


def make_ref(name: str, namespace: str = "d") -> PodRef:
    return PodRef(namespace, name, f"uid-{name}")


def build_container(limits: Mapping[str, Any], name: str = "c") -> Json:
    return {"name": name, "resources": {"limits": limits}}


def build_pod(
    name: str,
    *containers: Json,
    memory: object = None,
    assigned: Mapping[str, tuple[Share, ...]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Json | None = None,
    **spec: Any,
) -> Json:
    """Return a pod of namespace `d` as the API server sends it.

    Args:
        name: of the pod.
        containers: of its spec.
        memory: the units of memory that one more container asks for.
        assigned: the shares by container.
        metadata: added to its metadata.
        status: its status.
        spec: added to its spec.
    """
    if memory is not None:
        containers = (*containers, build_container({"accelkit.io/memory": memory}))
    added = dict(metadata or {})
    if assigned is not None:
        written = {ASSIGNMENT_ANNOTATION: encode_assignment(Assignment(dict(assigned)))}
        added["annotations"] = {**added.get("annotations", {}), **written}
    return {
        "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", **added},
        "spec": {"containers": [*containers], **spec},
        "status": status or {},
    }


def read_pod(name: str, *containers: Json, **more: Any) -> Pod:
    """Return a pod as a service reads it."""
    return msgspec.convert(build_pod(name, *containers, **more), Pod)
