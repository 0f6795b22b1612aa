"""Views for nodes, and their building blocks."""

from __future__ import annotations

import msgspec

from accelkit.kube.views.metadata import Condition
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import NodeInfo


class SystemInfo(NodeInfo, frozen=True, rename="camel"):
    """Information from the kubelet about the machine and its software."""

    architecture: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    os_image: str = ""


class _Status(msgspec.Struct, rename="camel"):
    node_info: SystemInfo = SystemInfo()
    conditions: list[Condition] | None = None


class _Spec(msgspec.Struct):
    unschedulable: bool = False


class SystemNode(msgspec.Struct):
    """A node with its system information, without its resources."""

    metadata: ObjectMeta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)
