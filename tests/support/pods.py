"""Factories of pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from accelkit.model.pod import PodRef

Json: TypeAlias = dict[str, Any]
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def make_ref(name: str, namespace: str = "d") -> PodRef:
    return PodRef(namespace, name, f"uid-{name}")


def build_container(limits: Mapping[str, Any], name: str = "c") -> Json:
    return {"name": name, "resources": {"limits": limits}}


def build_pod(
    name: str, *containers: Json, metadata: Json | None = None, status: Json | None = None, **spec: Any
) -> Json:
    """Return a pod of namespace `d` as the API server sends it; `metadata` adds to its metadata, `spec` to its spec."""
    return {
        "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", **(metadata or {})},
        "spec": {"containers": [*containers], **spec},
        "status": status or {},
    }
