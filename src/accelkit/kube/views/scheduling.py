"""Views for scheduling constraints between pods and nodes, which are used to evaluate kube-scheduler's rules.

The extender reads these fields only if pod groups are enabled, because they slow down the decoding of pods.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.pod import Container, Node, Pod, PodSpec

_EXCLUDING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})


class Toleration(msgspec.Struct, omit_defaults=True):
    """A toleration of a pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Return whether the toleration tolerates a taint; False if its operator is unknown."""
        if self.effect not in {"", taint.effect} or self.key not in {"", taint.key}:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator in {"", "Equal"} and self.value == taint.value


class Taint(msgspec.Struct):
    """A taint of a node."""

    key: str
    value: str = ""
    effect: str = ""


_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", effect="NoSchedule")


class TaintedSpec(msgspec.Struct):
    """The spec of a node, with the fields that can exclude pods."""

    unschedulable: bool = False
    taints: list[Taint] | None = None

    def list_taints(self) -> list[Taint]:
        """Return the taints that prevent the scheduling of pods."""
        taints = [taint for taint in self.taints or () if taint.effect in _EXCLUDING_EFFECTS]
        # After a node is cordoned, Kubernetes adds the taint with a delay.
        if self.unschedulable and all(taint.key != _UNSCHEDULABLE.key for taint in taints):
            taints.append(_UNSCHEDULABLE)
        return taints


class SchedulingNode(Node):
    """A node with its labels and taints."""

    spec: TaintedSpec = msgspec.field(default_factory=TaintedSpec)


class SchedulingGroup(msgspec.Struct, rename="camel"):
    """The field `spec.schedulingGroup` of a pod (Kubernetes 1.36)."""

    pod_group_name: str | None = None


class SchedulingGate(msgspec.Struct):
    """A scheduling gate, which prevents kube-scheduler from considering a pod."""

    name: str = ""


class Requirement(msgspec.Struct, omit_defaults=True):
    """A requirement for a label or for the name of a node."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(msgspec.Struct, rename="camel", omit_defaults=True):
    """A set of requirements. A node must satisfy all of them."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class _Required(msgspec.Struct, rename="camel"):
    node_selector_terms: list[Term] | None = None


class _NodeAffinity(msgspec.Struct):
    required: _Required | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class _Affinity(msgspec.Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class Conditions(msgspec.Struct, frozen=True):
    """The conditions under which kube-scheduler may consider a waiting pod, in a compact form.

    Attributes:
        place: the index of accelkit's gate among the pod's gates; -1 if the pod does not have this gate.
        kept: whether the pod has gates from other controllers.
        rules: the encoded node rules of the pod.
    """

    place: int
    kept: bool
    rules: bytes


class SchedulingPodSpec(PodSpec, rename="camel"):
    """The spec of a pod, with its group, gates and node constraints."""

    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[Toleration] | None = None
    # Computed from the previous four fields before they are removed. The API server never sends a field with this name.
    conditions: Conditions | None = msgspec.field(name="", default=None)

    @property
    def required_terms(self) -> list[Term] | None:
        """The required terms. A node must satisfy at least one term. None if all nodes are allowed."""
        node = self.affinity.node_affinity if self.affinity else None
        required = node.required if node else None
        return None if required is None else required.node_selector_terms or []


class SchedulingPod(Pod):
    """A pod with the fields that determine when and on which nodes kube-scheduler may schedule it."""

    spec: SchedulingPodSpec = msgspec.field(default_factory=SchedulingPodSpec)


class _Port(msgspec.Struct, rename="camel"):
    host_port: int = 0


class PortedContainer(Container):
    """A container with the host ports that it requests."""

    ports: list[_Port] | None = None


class ConditionedSpec(PodSpec, rename="camel"):
    """The spec of a pod with its node requirements, except resource amounts."""

    # These declarations narrow the types in the base class.
    containers: list[PortedContainer] = msgspec.field(default_factory=list)  # type: ignore[assignment]
    init_containers: list[PortedContainer] | None = None  # type: ignore[assignment]
    affinity: dict[str, msgspec.Raw] | None = None
    topology_spread_constraints: list[msgspec.Raw] | None = None
    volumes: list[dict[str, msgspec.Raw]] | None = None
    resource_claims: list[msgspec.Raw] | None = None
