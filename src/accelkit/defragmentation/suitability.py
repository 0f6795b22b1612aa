"""Check of whether a node is suitable for a pod, regardless of cards, based on fields of the Node and the Pod.

kube-scheduler evaluates additional conditions. The plan skips pods with conditions that this module does not support.
"""

from __future__ import annotations

import msgspec

from accelkit.kube.scheduling.node_rules import has_labels, tolerates_all
from accelkit.kube.scheduling.pod_groups import names_group
from accelkit.kube.views.metadata import OwnedMeta
from accelkit.kube.views.scheduling import ConditionedSpec, SchedulingGroup, SchedulingNode, Toleration
from accelkit.model.host_amounts import HostAmounts, read_pod_amounts
from accelkit.model.pod import Pod


class _PlannedSpec(ConditionedSpec, rename="camel"):
    node_selector: dict[str, str] | None = None
    tolerations: list[Toleration] | None = None
    scheduling_group: SchedulingGroup | None = None


class PlannedPod(Pod):
    """A pod with its owners and its node constraints."""

    metadata: OwnedMeta
    spec: _PlannedSpec = msgspec.field(default_factory=_PlannedSpec)

    @property
    def replaced(self) -> bool:
        """Whether a controller would replace the pod. A static pod is owned by its node, which is not a controller."""
        return bool(self.metadata.list_controllers() - {"Node"})

    @property
    def grouped(self) -> bool:
        """Whether the pod specifies that it belongs to a pod group."""
        return names_group(self.metadata.labels or {}, self.spec.scheduling_group)

    def suits(self, node: SchedulingNode, room: HostAmounts) -> bool:
        """Return whether a node is suitable for the pod.

        Args:
            node: the current state of the node.
            room: the free CPU and memory of the host.
        """
        if not has_labels(node.metadata.labels or {}, self.spec.node_selector or {}):
            return False
        if not tolerates_all(self.spec.tolerations or (), node.spec.list_taints()):
            return False
        return all(needed <= free for needed, free in zip(read_pod_amounts(self.spec), room, strict=True))
