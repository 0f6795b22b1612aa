"""Nodes and accelkit's own pods with the fields by which stages are judged, under their JSON names.

These types are separate, because the extender decodes thousands of nodes and pods and needs none of these fields.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.keys import COMPONENT_LABEL
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Node, NodeInfo, NodeStatus

# The label that the controller of a Deployment sets on its pods; that of a DaemonSet does not.
_OF_DEPLOYMENT: Final = "pod-template-hash"


class NodeSystemInfo(NodeInfo, frozen=True, rename="camel"):
    """The system information from the kubelet, with the container runtime."""

    container_runtime_version: str = ""


class NodeCondition(msgspec.Struct, frozen=True):
    """A condition of a node or a pod."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class NodeDetailsStatus(NodeStatus, rename="camel"):
    """The status of a node."""

    node_info: NodeSystemInfo = NodeSystemInfo()
    conditions: list[NodeCondition] | None = None


class NodeDetails(Node):
    """A node."""

    status: NodeDetailsStatus = msgspec.field(default_factory=NodeDetailsStatus)

    @property
    def ready(self) -> NodeCondition | None:
        """The condition Ready; None if the kubelet never wrote it."""
        return next((each for each in self.status.conditions or () if each.type == "Ready"), None)


class Waiting(msgspec.Struct, frozen=True):
    """The reason why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """The end of a container."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a container."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class OwnPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a container."""

    container_port: int
    name: str = ""


class OwnContainer(msgspec.Struct, frozen=True):
    """A container of a pod."""

    ports: list[OwnPort] | None = None


class OwnPodSpec(msgspec.Struct, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""
    containers: list[OwnContainer] | None = None


class OwnPodStatus(msgspec.Struct, rename="camel"):
    """The status of a pod."""

    phase: str = ""
    reason: str | None = None
    message: str | None = None
    conditions: list[NodeCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class OwnPod(msgspec.Struct):
    """A pod of accelkit."""

    metadata: ObjectMeta
    spec: OwnPodSpec = msgspec.field(default_factory=OwnPodSpec)
    status: OwnPodStatus = msgspec.field(default_factory=OwnPodStatus)

    @property
    def component(self) -> str:
        """The component of accelkit that the pod runs, as named by the roles."""
        return (self.metadata.labels or {}).get(COMPONENT_LABEL, "")

    def find_port(self, name: str) -> int | None:
        """Return the number of a named port; None if no container has it."""
        ports = (port for each in self.spec.containers or () for port in each.ports or ())
        return next((port.container_port for port in ports if port.name == name), None)

    @property
    def of_daemon_set(self) -> bool:
        """Whether the pod belongs to a DaemonSet."""
        return _OF_DEPLOYMENT not in (self.metadata.labels or {})

    @property
    def current(self) -> bool:
        """Whether the pod has not ended and is not being deleted."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in ("Succeeded", "Failed")

    @property
    def ready(self) -> bool:
        """Whether all its containers are ready."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions or ())
