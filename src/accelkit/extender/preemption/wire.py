"""Wire format of preempt: the fields that are read from ExtenderPreemptionArgs, and the result."""

from __future__ import annotations

import msgspec

from accelkit.kube.scheduling.conditions import list_unread_conditions
from accelkit.kube.views.scheduling import ConditionedSpec
from accelkit.model.pending_pod import PendingPod


class _ConditionedPod(msgspec.Struct):
    spec: ConditionedSpec = msgspec.field(default_factory=ConditionedSpec)


class VictimMeta(msgspec.Struct):
    """Fields of a victim's ObjectMeta that are read."""

    uid: str = ""


class VictimPod(msgspec.Struct):
    """Fields of a victim that are read, if it is sent as a whole Pod."""

    metadata: VictimMeta


class Victims(msgspec.Struct):
    """Victims: whole pods, those of the highest priority first."""

    Pods: list[VictimPod] | None = None
    NumPDBViolations: int = 0


class MetaPod(msgspec.Struct):
    """MetaPod."""

    UID: str


class MetaVictims(msgspec.Struct):
    """MetaVictims: the UIDs of the victims of one node, and how many disruption budgets they would violate."""

    Pods: list[MetaPod] | None = None
    NumPDBViolations: int = 0

    @property
    def uids(self) -> list[str]:
        """The UIDs, in order."""
        return [each.UID for each in self.Pods or ()]


class PreemptionArgs(msgspec.Struct):
    """ExtenderPreemptionArgs: UIDs if the scheduler's configuration sets nodeCacheCapable, otherwise whole pods."""

    Pod: msgspec.Raw
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None

    def list_offered(self) -> dict[str, MetaVictims]:
        """Return the victims of each node as UIDs, from either form."""
        if self.NodeNameToMetaVictims is not None:
            return self.NodeNameToMetaVictims
        return {
            name: MetaVictims([MetaPod(pod.metadata.uid) for pod in each.Pods or ()], each.NumPDBViolations)
            for name, each in (self.NodeNameToVictims or {}).items()
        }


class PreemptionResult(msgspec.Struct):
    """ExtenderPreemptionResult; a node that is left out is not a candidate."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


def read_preemptor(text: msgspec.Raw) -> PendingPod:
    """Return the preempting pod.

    Raises:
        msgspec.MsgspecError: the pod cannot be read.
    """
    return _preemptor.decode(text)


def needs_more_than_amounts(text: msgspec.Raw, known: frozenset[str]) -> bool:
    """Return whether a pod needs more from its node than CPU, memory and accelkit resources.

    If so, only kube-scheduler can select the victims that help the pod.

    Args:
        text: the pod.
        known: the names of accelkit's resources.
    """
    return bool(list_unread_conditions(_conditioned.decode(text).spec, known))


_preemptor = msgspec.json.Decoder(PendingPod)
_conditioned = msgspec.json.Decoder(_ConditionedPod)
