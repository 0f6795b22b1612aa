"""Nodes and accelkit's own pods, with the fields that are used to evaluate stages, under their JSON names.

These types are separate from the extender's types, because the extender decodes thousands of nodes and pods without
these fields.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.kube.views.metadata import ExplainedCondition
from accelkit.kube.views.node import SystemInfo
from accelkit.kube.views.pod import ExplainedPod, PlacedSpec
from accelkit.model.keys import COMPONENT_LABEL
from accelkit.model.pod import Node, NodeStatus

# A label that the Deployment controller sets on its pods, but the DaemonSet controller does not.
_OF_DEPLOYMENT: Final = "pod-template-hash"


class NodeDetailsStatus(NodeStatus, rename="camel"):
    """The status of a node."""

    node_info: SystemInfo = SystemInfo()
    conditions: list[ExplainedCondition] | None = None


class NodeDetails(Node):
    """A node."""

    status: NodeDetailsStatus = msgspec.field(default_factory=NodeDetailsStatus)

    @property
    def ready(self) -> ExplainedCondition | None:
        """The condition Ready; None if the kubelet has never written it."""
        return next((each for each in self.status.conditions or () if each.type == "Ready"), None)


class OwnPort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a container."""

    container_port: int
    name: str = ""


class OwnContainer(msgspec.Struct, frozen=True):
    """A container of a pod."""

    ports: list[OwnPort] | None = None


class OwnPodSpec(PlacedSpec, rename="camel"):
    """The spec of a pod."""

    containers: list[OwnContainer] | None = None


class OwnPod(ExplainedPod):
    """One of accelkit's pods."""

    spec: OwnPodSpec = msgspec.field(default_factory=OwnPodSpec)

    @property
    def component(self) -> str:
        """The accelkit component that the pod runs, according to the pod's label."""
        return (self.metadata.labels or {}).get(COMPONENT_LABEL, "")

    def find_port(self, name: str) -> int | None:
        """Return the number of a named port; None if no container has this port."""
        ports = (port for each in self.spec.containers or () for port in each.ports or ())
        return next((port.container_port for port in ports if port.name == name), None)

    @property
    def of_daemon_set(self) -> bool:
        """Whether the pod belongs to a DaemonSet."""
        return _OF_DEPLOYMENT not in (self.metadata.labels or {})

    @property
    def current(self) -> bool:
        """Whether the pod has not terminated and is not being deleted."""
        return self.metadata.deletion_timestamp is None and not self.terminal
