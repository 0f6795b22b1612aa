"""The fields of pods and nodes that accelkit reads, under their wire names.

The decoder skips all other fields, which make up most of a pod, so that decoding is fast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.object_meta import ObjectMeta

# Phases in which the containers have terminated permanently.
ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
# The type of the condition that kube-scheduler uses to report its result.
SCHEDULED: Final = "PodScheduled"
# The value of preemptionPolicy for pods that do not preempt other pods.
NEVER_PREEMPTS: Final = "Never"
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")


class PodRef(msgspec.Struct, frozen=True):
    """A reference to a pod. The UID distinguishes the pod from other pods with the same name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Resources(msgspec.Struct, omit_defaults=True):
    """Limits and requests of a container. Quantities from the API server are text, but users may write numbers."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class Container(msgspec.Struct, rename="camel", omit_defaults=True):
    """A container of a pod."""

    name: str
    resources: Resources = msgspec.field(default_factory=Resources)
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """The spec of a pod."""

    containers: list[Container] = msgspec.field(default_factory=list)
    init_containers: list[Container] | None = None
    node_name: str = ""
    overhead: dict[str, str | int | float] | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class PodCondition(msgspec.Struct, omit_defaults=True):
    """A condition of a pod."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None


class ContainerState(msgspec.Struct, omit_defaults=True):
    """The state of a container. `running` is set while the container runs."""

    running: dict[str, str] | None = None


class ContainerStatus(msgspec.Struct, omit_defaults=True):
    """The status of a container. Its ID in the container runtime has the format `containerd://<id>`."""

    name: str
    container_id: str = msgspec.field(name="containerID", default="")
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """The status of a pod. The kubelet sets the start time after it has admitted the pod and allocated its devices.

    Only kubelets may write the status. Users who may edit pods cannot edit it.
    """

    phase: str = ""
    start_time: str | None = None
    conditions: list[PodCondition] | None = None
    nominated_node_name: str | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class Pod(msgspec.Struct, omit_defaults=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def terminal(self) -> bool:
        """Whether the pod's containers have terminated permanently, so that its cards are released."""
        return self.status.phase in ENDED_PHASES

    def list_running(self) -> dict[str, str]:
        """Return the names of the running containers, each with its ID in the container runtime."""
        statuses = (*(self.status.container_statuses or ()), *(self.status.init_container_statuses or ()))
        return {each.name: each.container_id for each in statuses if each.state.running is not None}

    @property
    def unschedulable(self) -> bool:
        """Whether kube-scheduler found no node for the pod; False for gated pods and pods of other schedulers."""
        return any(
            each.type == SCHEDULED and each.status == "False" and each.reason in ("Unschedulable", "SchedulerError")
            for each in self.status.conditions or ()
        )

    def find_annotation(self, key: str) -> str | None:
        """Return the value of an annotation; None if it is missing."""
        return (self.metadata.annotations or {}).get(key)


class ConfigMap(msgspec.Struct, omit_defaults=True):
    """A ConfigMap."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None


class NodeAddress(msgspec.Struct):
    """An address of a node. `type` is, for example, InternalIP or Hostname."""

    type: str
    address: str


def find_address(addresses: Sequence[NodeAddress]) -> str:
    """Return the InternalIP of a node or, if it has none, its Hostname; empty if it has neither.

    Values that are not a valid IP address or host name are ignored, because kubelets write the addresses, and commands
    contain them.
    """
    found = {each.type: each.address for each in reversed(addresses) if _HOST.fullmatch(each.address)}
    return found.get("InternalIP") or found.get("Hostname") or ""


class NodeInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Facts about the machine from the kubelet; empty if the kubelet does not report them."""

    boot_id: str = msgspec.field(name="bootID", default="")
    kernel_version: str = ""


class NodeStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """The status of a node."""

    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(msgspec.Struct, omit_defaults=True):
    """A node."""

    metadata: ObjectMeta
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    def find_annotation(self, key: str) -> str | None:
        """Return the value of an annotation; None if it is missing."""
        return (self.metadata.annotations or {}).get(key)
