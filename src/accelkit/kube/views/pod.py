"""Views for running or bound pods, and their building blocks."""

from __future__ import annotations

import msgspec

from accelkit.kube.views.metadata import ExplainedCondition, is_true
from accelkit.model.keys import MIRROR_ANNOTATION
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import ENDED_PHASES, PodRef


class Waiting(msgspec.Struct, frozen=True):
    """The reason why a container is not running yet."""

    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """The termination of a container."""

    exit_code: int
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, frozen=True):
    """The state of a container that is not running."""

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
    """The spec of a pod, with only the node name."""

    node_name: str = ""


class ExplainedStatus(msgspec.Struct, rename="camel"):
    """The status of a pod, with conditions and messages."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: list[ExplainedCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class ExplainedPod(msgspec.Struct):
    """A pod with the fields that explain its progress.

    Use this view only for the pods of one workload, because messages are large.
    """

    metadata: ObjectMeta
    spec: PlacedSpec = msgspec.field(default_factory=PlacedSpec)
    status: ExplainedStatus = msgspec.field(default_factory=ExplainedStatus)

    @property
    def ready(self) -> bool:
        """Whether all containers of the pod are ready."""
        return is_true(self.status.conditions, "Ready")

    @property
    def terminal(self) -> bool:
        """Whether the pod has terminated."""
        return self.status.phase in ENDED_PHASES


class BoundSpec(PlacedSpec, rename="camel"):
    """The spec of a bound pod, with its priority."""

    priority: int | None = None


class _PhaseStatus(msgspec.Struct):
    phase: str = ""


class EvictablePod(msgspec.Struct):
    """A bound pod with the fields that determine whether it may be evicted."""

    metadata: ObjectMeta
    spec: BoundSpec = msgspec.field(default_factory=BoundSpec)
    status: _PhaseStatus = msgspec.field(default_factory=_PhaseStatus)

    @property
    def ref(self) -> PodRef:
        """The identity of the pod."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def priority(self) -> int:
        """The priority of the pod, which is set during admission."""
        return self.spec.priority or 0

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the pod, which are compared with the selectors of budgets."""
        return self.metadata.labels or {}

    @property
    def static(self) -> bool:
        """Whether the pod is a static pod, so that an eviction would only delete its mirror pod.

        The result is based on the annotation, because any user can set a Node as the owner of a pod. If a pod has this
        annotation but was not created by its kubelet, the kubelet deletes the pod.
        """
        return MIRROR_ANNOTATION in (self.metadata.annotations or {})

    @property
    def ended(self) -> bool:
        """Whether the pod has terminated."""
        return self.status.phase in ENDED_PHASES

    @property
    def leaving(self) -> bool:
        """Whether the pod is being deleted or has terminated."""
        return self.metadata.deletion_timestamp is not None or self.ended

    def is_leaving(self, now: float) -> bool:
        """Return whether the pod has terminated, or is being deleted and expected to terminate.

        Args:
            now: the current time in seconds since 1970.
        """
        return self.ended or (self.metadata.deletion_timestamp is not None and now < self.metadata.leaves_by)
