"""Nodes and accelkit's own pods with the fields by which stages are judged, under their wire names.

The extender decodes nodes and pods by the thousand and needs none of these, so they are types of their own.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.keys import COMPONENT_LABEL
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Node, NodeInfo, NodeStatus

# What the controller of a Deployment puts on its pods, and that of a DaemonSet does not.
_OF_DEPLOYMENT: Final = "pod-template-hash"


class NodeSystemInfo(NodeInfo, frozen=True, rename="camel"):
    """What a kubelet says of its machine, and of its runtime."""

    container_runtime_version: str = ""


class NodeCondition(msgspec.Struct, frozen=True):
    """A condition of a node or a pod."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class NodeDetailsStatus(NodeStatus, rename="camel"):
    """status of a node."""

    node_info: NodeSystemInfo = NodeSystemInfo()
    conditions: list[NodeCondition] | None = None


class NodeDetails(Node):
    """A node."""

    status: NodeDetailsStatus = msgspec.field(default_factory=NodeDetailsStatus)

    @property
    def ready(self) -> NodeCondition | None:
        """The condition Ready; None where its kubelet never wrote one."""
        return next((each for each in self.status.conditions or () if each.type == "Ready"), None)


class Waiting(msgspec.Struct, frozen=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """What a container does."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """status of a container."""

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
    """spec of a pod."""

    node_name: str = ""
    containers: list[OwnContainer] | None = None


class OwnPodStatus(msgspec.Struct, rename="camel"):
    """status of a pod."""

    phase: str = ""
    reason: str | None = None
    message: str | None = None
    conditions: list[NodeCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class OwnPod(msgspec.Struct):
    """A pod of accelkit's."""

    metadata: ObjectMeta
    spec: OwnPodSpec = msgspec.field(default_factory=OwnPodSpec)
    status: OwnPodStatus = msgspec.field(default_factory=OwnPodStatus)

    @property
    def component(self) -> str:
        """Which program of accelkit's it runs, as the roles name it."""
        return (self.metadata.labels or {}).get(COMPONENT_LABEL, "")

    def find_port(self, name: str) -> int | None:
        """Return the number of a named port; None where no container has it."""
        ports = (port for each in self.spec.containers or () for port in each.ports or ())
        return next((port.container_port for port in ports if port.name == name), None)

    @property
    def of_daemon_set(self) -> bool:
        """Whether each node has one of its kind."""
        return _OF_DEPLOYMENT not in (self.metadata.labels or {})

    @property
    def current(self) -> bool:
        """Whether it has not ended, and is not on its way out."""
        return self.metadata.deletion_timestamp is None and self.status.phase not in ("Succeeded", "Failed")

    @property
    def ready(self) -> bool:
        """Whether all its containers are ready."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions or ())
