"""Wire format of the preempt verb: the required fields of ExtenderPreemptionArgs, and the result."""

from __future__ import annotations

import msgspec

from accelkit.kube.scheduling.conditions import list_unread_conditions
from accelkit.kube.views.scheduling import ConditionedSpec
from accelkit.model.pending_pod import PendingPod


class _ConditionedPod(msgspec.Struct):
    spec: ConditionedSpec = msgspec.field(default_factory=ConditionedSpec)


class VictimMeta(msgspec.Struct):
    """Required fields of a victim's ObjectMeta."""

    uid: str = ""


class VictimPod(msgspec.Struct):
    """Required fields of a victim that is sent as a complete Pod."""

    metadata: VictimMeta


class Victims(msgspec.Struct):
    """Victims as complete pods, in descending order of priority."""

    Pods: list[VictimPod] | None = None
    NumPDBViolations: int = 0


class MetaPod(msgspec.Struct):
    """UID of a victim (`MetaPod`)."""

    UID: str


class MetaVictims(msgspec.Struct):
    """UIDs of the victims on one node, and the number of violated disruption budgets (`MetaVictims`)."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0

    @property
    def uids(self) -> list[str]:
        """The UIDs of the victims, in the original order."""
        return [each.UID for each in self.Pods or ()]


class PreemptionArgs(msgspec.Struct):
    """ExtenderPreemptionArgs, with UIDs if nodeCacheCapable is set in the scheduler, or with complete pods."""

    Pod: msgspec.Raw
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None

    def list_offered(self) -> dict[str, MetaVictims]:
        """Return the UIDs of the victims on each node, from the UIDs or the complete pods."""
        if self.NodeNameToMetaVictims is not None:
            return self.NodeNameToMetaVictims
        return {
            name: MetaVictims([MetaPod(pod.metadata.uid) for pod in each.Pods or ()], each.NumPDBViolations)
            for name, each in (self.NodeNameToVictims or {}).items()
        }


class PreemptionResult(msgspec.Struct):
    """ExtenderPreemptionResult; an omitted node is not a candidate."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


def read_preemptor(text: msgspec.Raw) -> PendingPod:
    """Return the preempting pod.

    Raises:
        msgspec.MsgspecError: the pod is unreadable.
    """
    return _preemptor.decode(text)


def needs_more_than_amounts(text: msgspec.Raw, known: frozenset[str]) -> bool:
    """Return whether a pod has requirements other than CPU, memory and accelkit resources.

    Args:
        text: the pod as JSON.
        known: the names of accelkit's resources.
    """
    return bool(list_unread_conditions(_conditioned.decode(text).spec, known))


_preemptor = msgspec.json.Decoder(PendingPod)
_conditioned = msgspec.json.Decoder(_ConditionedPod)
