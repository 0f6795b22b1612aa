"""Parts and views of pods that run or are bound."""

from __future__ import annotations

import msgspec

from accelkit.kube.views.metadata import ExplainedCondition, is_true
from accelkit.model.keys import MIRROR_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import ENDED_PHASES, PodRef


class Waiting(msgspec.Struct, frozen=True):
    """The reason why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """The end of a container."""

    exit_code: int
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container that does not run."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a container."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PlacedSpec(msgspec.Struct, rename="camel"):
    """The spec of a pod, with only its node."""

    node_name: str = ""


class ExplainedStatus(msgspec.Struct, rename="camel"):
    """The status of a pod, with the fields that explain it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[ExplainedCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class ExplainedPod(msgspec.Struct):
    """A pod with the fields that explain its progress. Use it only for the pods of one workload: messages are large."""

    metadata: ObjectMeta
    spec: PlacedSpec = msgspec.field(default_factory=PlacedSpec)
    status: ExplainedStatus = msgspec.field(default_factory=ExplainedStatus)

    @property
    def ready(self) -> bool:
        """Whether all containers of the pod are ready."""
        return is_true(self.status.conditions, "Ready")

    @property
    def terminal(self) -> bool:
        """Whether the pod's containers have ended permanently."""
        return self.status.phase in ENDED_PHASES


class BoundSpec(PlacedSpec, rename="camel"):
    """The spec of a bound pod, with its priority."""

    priority: int | None = None


class _PhaseStatus(msgspec.Struct):
    phase: str = ""


class EvictablePod(msgspec.Struct):
    """A bound pod with the fields that decide whether it may be evicted."""

    metadata: ObjectMeta
    spec: BoundSpec = msgspec.field(default_factory=BoundSpec)
    status: _PhaseStatus = msgspec.field(default_factory=_PhaseStatus)

    @property
    def ref(self) -> PodRef:
        """Identity of the pod."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def priority(self) -> int:
        """Priority of the pod, as admission set it."""
        return self.spec.priority or 0

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pod, which the selectors of budgets match."""
        return self.metadata.labels or {}

    @property
    def static(self) -> bool:
        """Whether a kubelet runs the pod from a file, so that an eviction only deletes its mirror pod.

        The annotation is decisive, because every user may set a Node as the owner of a pod. A kubelet deletes pods with
        the annotation that it did not create.
        """
        return MIRROR_ANNOTATION in (self.metadata.annotations or {})

    @property
    def ended(self) -> bool:
        """Whether the pod's containers have ended permanently."""
        return self.status.phase in ENDED_PHASES

    @property
    def leaving(self) -> bool:
        """Whether the pod is being deleted, or has ended."""
        return self.metadata.deletion_timestamp is not None or self.ended

    def is_leaving(self, now: float) -> bool:
        """Return whether the pod has ended, or is being deleted and expected to end.

        Args:
            now: seconds since 1970.
        """
        return self.ended or (self.metadata.deletion_timestamp is not None and now < self.metadata.leaves_by)
