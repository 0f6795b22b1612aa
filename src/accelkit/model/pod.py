"""The fields of pods and nodes that we read, under their wire names.

Fields not named here are skipped while decoding: that is most of a pod, and what keeps decoding cheap.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.object_meta import ObjectMeta

# Of the pod that mirrors one which a kubelet runs from a file.
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"
# The condition by which kube-scheduler says what it found.
SCHEDULED: Final = "PodScheduled"
# The preemptionPolicy of pods for which nobody is evicted.
NEVER_PREEMPTS: Final = "Never"
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]*")


class PodRef(msgspec.Struct, frozen=True):
    """A pod; the UID tells it from another of the same name."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Resources(msgspec.Struct, omit_defaults=True):
    """Limits and requests of a container; the API server sends quantities as text, people also as numbers."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class Container(msgspec.Struct, rename="camel", omit_defaults=True):
    """A container of a pod."""

    name: str
    resources: Resources = msgspec.field(default_factory=Resources)
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, rename="camel", omit_defaults=True):
    """spec of a pod."""

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
    """What a container does; `running` is there while it runs."""

    running: dict[str, str] | None = None


class ContainerStatus(msgspec.Struct, omit_defaults=True):
    """status of a container; its runtime's name for it is `containerd://<id>`."""

    name: str
    container_id: str = msgspec.field(name="containerID", default="")
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """status of a pod; the kubelet sets the start time once it has admitted the pod, devices and all.

    Nobody but kubelets may write it: those who may edit pods cannot edit their status.
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
        """Whether its containers have ended for good, so that it holds no card any more."""
        return self.status.phase in ("Succeeded", "Failed")

    def list_running(self) -> dict[str, str]:
        """Return the containers that run, with what their runtime calls each."""
        statuses = (*(self.status.container_statuses or ()), *(self.status.init_container_statuses or ()))
        return {each.name: each.container_id for each in statuses if each.state.running is not None}

    @property
    def unschedulable(self) -> bool:
        """Whether kube-scheduler has tried it and found no node; a pod that is gated or another scheduler's is not."""
        return any(
            each.type == SCHEDULED and each.status == "False" and each.reason in ("Unschedulable", "SchedulerError")
            for each in self.status.conditions or ()
        )

    def find_annotation(self, key: str) -> str | None:
        """Return an annotation's value, None where it is absent."""
        return (self.metadata.annotations or {}).get(key)


class ConfigMap(msgspec.Struct, omit_defaults=True):
    """A ConfigMap."""

    metadata: ObjectMeta
    data: dict[str, str] | None = None


class NodeAddress(msgspec.Struct):
    """An address of a node; `type` is InternalIP, Hostname…."""

    type: str
    address: str


def find_address(addresses: Sequence[NodeAddress]) -> str:
    """Return the address at which a node is reached: its InternalIP, else its Hostname; empty where it has neither.

    A kubelet writes them, and they end in commands: what is neither an IP address nor a host's name is none.
    """
    found = {each.type: each.address for each in reversed(addresses) if _HOST.fullmatch(each.address)}
    return found.get("InternalIP") or found.get("Hostname") or ""


class NodeInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What the kubelet tells of the machine; empty where it does not."""

    boot_id: str = msgspec.field(name="bootID", default="")
    kernel_version: str = ""


class NodeStatus(msgspec.Struct, rename="camel", omit_defaults=True):
    """status of a node."""

    capacity: dict[str, str] | None = None
    allocatable: dict[str, str] | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(msgspec.Struct, omit_defaults=True):
    """A node."""

    metadata: ObjectMeta
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    def find_annotation(self, key: str) -> str | None:
        """Return an annotation's value, None where it is absent."""
        return (self.metadata.annotations or {}).get(key)
