"""Objects from which groups are read: pods and nodes with more of their fields, and two kinds of PodGroup.

They are used only if groups are enabled, because they make the decoding of pods slower.
"""

from __future__ import annotations

import msgspec

from accelkit.kube.scheduling.node_rules import TaintedSpec, Toleration
from accelkit.kube.scheduling.pod_groups import SchedulingGroup
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Node, Pod, PodSpec


class SchedulingGate(msgspec.Struct):
    """Scheduling gate, which keeps kube-scheduler from trying a pod."""

    name: str = ""


class Requirement(msgspec.Struct, omit_defaults=True):
    """Requirement on a label, or on the name of a node."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(msgspec.Struct, rename="camel", omit_defaults=True):
    """Requirements that must all hold."""

    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class _Required(msgspec.Struct, rename="camel"):
    node_selector_terms: list[Term] | None = None


class _NodeAffinity(msgspec.Struct):
    required: _Required | None = msgspec.field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class _Affinity(msgspec.Struct, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class Conditions(msgspec.Struct, frozen=True):
    """When and where a waiting pod may be tried, in a compact form.

    Attributes:
        place: the index of accelkit's gate among its gates; -1 if it has none.
        kept: whether it has gates of other controllers.
        rules: the encoded rules of its nodes.
    """

    place: int
    kept: bool
    rules: bytes


class GroupPodSpec(PodSpec, rename="camel"):
    """spec of a pod, with the fields that decide when and where kube-scheduler may try it."""

    scheduling_gates: list[SchedulingGate] | None = None
    scheduling_group: SchedulingGroup | None = None
    node_selector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    tolerations: list[Toleration] | None = None
    # Computed from the four fields above before they are dropped; no field of this name is ever sent.
    conditions: Conditions | None = msgspec.field(name="", default=None)

    @property
    def required_terms(self) -> list[Term] | None:
        """The terms of which one must hold for a node; None if every node is allowed."""
        node = self.affinity.node_affinity if self.affinity else None
        required = node.required if node else None
        return None if required is None else required.node_selector_terms or []


class GroupPod(Pod):
    """A pod that may belong to a group."""

    spec: GroupPodSpec = msgspec.field(default_factory=GroupPodSpec)


class GroupNode(Node):
    """A node, with its taints."""

    spec: TaintedSpec = msgspec.field(default_factory=TaintedSpec)


class _CoschedulingSpec(msgspec.Struct, rename="camel"):
    min_member: int | None = None


class CoschedulingGroup(msgspec.Struct):
    """PodGroup of scheduling.x-k8s.io, as the coscheduling plug-in reads it."""

    metadata: ObjectMeta
    spec: _CoschedulingSpec = msgspec.field(default_factory=_CoschedulingSpec)

    @property
    def size(self) -> int | None:
        """The number of pods that belong together; None if it is not set."""
        return self.spec.min_member


class _Gang(msgspec.Struct, rename="camel"):
    min_count: int | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _WorkloadSpec(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy = msgspec.field(default_factory=_Policy)


class WorkloadGroup(msgspec.Struct):
    """PodGroup of scheduling.k8s.io, the one of Kubernetes; without a gang, each pod is independent."""

    metadata: ObjectMeta
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)

    @property
    def size(self) -> int | None:
        """The number of pods that belong together; None if it is not set."""
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count
