"""Whether a node may take a pod, but for its cards: by what both say of themselves.

kube-scheduler judges more. For a pod with conditions that are not read here, nothing is planned.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.host_amounts import HostAmounts, read_pod_amounts
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Container, Node, Pod, PodSpec

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})
# What the API server fills asks nothing of a node.
_HARMLESS: Final = frozenset({"name", "projected", "configMap", "secret", "emptyDir", "downwardAPI"})


class _Taint(msgspec.Struct):
    key: str
    effect: str
    value: str = ""


class _Toleration(msgspec.Struct):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: _Taint) -> bool:
        """Return whether it covers a taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (self.key == taint.key and self.value == taint.value)


class _NodeSpec(msgspec.Struct):
    unschedulable: bool = False
    taints: list[_Taint] | None = None


class PlannedNode(Node):
    """A node, with what it says of the pods that it takes."""

    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)

    def list_taints(self) -> list[_Taint]:
        """Return those that keep pods away."""
        found = [each for each in self.spec.taints or () if each.effect in _BLOCKING]
        return [*found, _Taint(_UNSCHEDULABLE, "NoSchedule")] if self.spec.unschedulable else found


class _Owner(msgspec.Struct):
    kind: str = ""
    controller: bool = False


class _Port(msgspec.Struct, rename="camel"):
    host_port: int = 0


class _PlannedContainer(Container):
    ports: list[_Port] | None = None


class _PlannedMeta(ObjectMeta):
    owner_references: list[_Owner] | None = msgspec.field(name="ownerReferences", default=None)


class _PlannedSpec(PodSpec, rename="camel"):
    # What is written here narrows the fields of the pods that everybody reads.
    containers: list[_PlannedContainer] = msgspec.field(default_factory=list)  # type: ignore[assignment]
    init_containers: list[_PlannedContainer] | None = None  # type: ignore[assignment]
    node_selector: dict[str, str] | None = None
    tolerations: list[_Toleration] | None = None
    affinity: dict[str, msgspec.Raw] | None = None
    topology_spread_constraints: list[msgspec.Raw] | None = None
    volumes: list[dict[str, msgspec.Raw]] | None = None
    resource_claims: list[msgspec.Raw] | None = None


class PlannedPod(Pod):
    """A pod, with what it says of nodes and who would make it anew."""

    metadata: _PlannedMeta
    spec: _PlannedSpec = msgspec.field(default_factory=_PlannedSpec)

    @property
    def replaced(self) -> bool:
        """Whether a controller would make another one in its place; a static pod has its node for an owner."""
        owners = self.metadata.owner_references or ()
        return any(owner.controller and owner.kind != "Node" for owner in owners)

    def find_unread_conditions(self, known: frozenset[str]) -> str:
        """Return what of the pod only kube-scheduler can judge; empty where all of it is read here.

        Args:
            known: names of the resources that are ours.
        """
        asked = {
            name
            for each in (*self.spec.containers, *(self.spec.init_containers or ()))
            for name in (each.resources.requests or {}).keys() | (each.resources.limits or {}).keys()
        }
        found = {
            "affinity": bool(self.spec.affinity),
            "topologySpreadConstraints": bool(self.spec.topology_spread_constraints),
            "resourceClaims": bool(self.spec.resource_claims),
            "volumes": any(set(each) - _HARMLESS for each in self.spec.volumes or ()),
            "hostPort": any(
                port.host_port
                for each in (*self.spec.containers, *(self.spec.init_containers or ()))
                for port in each.ports or ()
            ),
            "other resources": bool(asked - known - {"cpu", "memory"}),
        }
        return ", ".join(name for name, there in found.items() if there)

    def suits(self, node: PlannedNode, room: HostAmounts) -> bool:
        """Return whether a node may take the pod.

        Args:
            node: as it is now.
            room: what its host has free.
        """
        labels = node.metadata.labels or {}
        if any(labels.get(key) != value for key, value in (self.spec.node_selector or {}).items()):
            return False
        tolerations = self.spec.tolerations or ()
        if any(not any(each.tolerates(taint) for each in tolerations) for taint in node.list_taints()):
            return False
        return all(asked <= free for asked, free in zip(read_pod_amounts(self.spec), room, strict=True))
