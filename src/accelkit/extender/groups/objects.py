"""The two kinds of PodGroup that contain the sizes of groups."""

from __future__ import annotations

import msgspec

from accelkit.model.object_meta import ObjectMeta


class _CoschedulingSpec(msgspec.Struct, rename="camel"):
    min_member: int | None = None


class CoschedulingGroup(msgspec.Struct):
    """PodGroup of scheduling.x-k8s.io, which the coscheduling plug-in reads."""

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
    """PodGroup of the Kubernetes API scheduling.k8s.io; without a gang policy, each pod is independent."""

    metadata: ObjectMeta
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)

    @property
    def size(self) -> int | None:
        """The number of pods that belong together; None if it is not set."""
        gang = self.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count
