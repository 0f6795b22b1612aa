"""A pod that waits for a node, with its preferences for nodes."""

from __future__ import annotations

import msgspec

from accelkit.model.pod import Pod, PodSpec


class _Preferences(msgspec.Struct, rename="camel"):
    """Preferred affinities of a pod. Readers check only whether any exist."""

    preferred: list[msgspec.Raw] | None = msgspec.field(
        name="preferredDuringSchedulingIgnoredDuringExecution", default=None
    )


class _Affinity(msgspec.Struct, rename="camel"):
    node_affinity: _Preferences | None = None
    pod_affinity: _Preferences | None = None
    pod_anti_affinity: _Preferences | None = None


class _Spread(msgspec.Struct, rename="camel"):
    when_unsatisfiable: str = ""


class PendingPodSpec(PodSpec, rename="camel"):
    """The spec of a waiting pod, with its preferences for nodes."""

    affinity: _Affinity | None = None
    topology_spread_constraints: list[_Spread] | None = None

    @property
    def weighs_nodes(self) -> bool:
        """Whether the pod prefers some nodes to other nodes. The scores from kube-scheduler reflect this preference."""
        affinity = self.affinity or _Affinity()
        preferences = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
        return any(each is not None and each.preferred for each in preferences) or any(
            each.when_unsatisfiable == "ScheduleAnyway" for each in self.topology_spread_constraints or ()
        )


class PendingPod(Pod):
    """A waiting pod, as kube-scheduler sends it."""

    spec: PendingPodSpec = msgspec.field(default_factory=PendingPodSpec)
