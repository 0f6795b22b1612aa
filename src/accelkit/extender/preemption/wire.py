"""Defines what kube-scheduler sends to preempt and reads of it: ExtenderPreemptionArgs and its result."""

from __future__ import annotations

import msgspec

from accelkit.kube.scheduling.conditions import ConditionedSpec, list_unread_conditions
from accelkit.model.asked_pod import AskedPod


class _ConditionedPod(msgspec.Struct):
    spec: ConditionedSpec = msgspec.field(default_factory=ConditionedSpec)


class VictimMeta(msgspec.Struct):
    """ObjectMeta of a victim, as far as it is read."""

    uid: str = ""


class VictimPod(msgspec.Struct):
    """A victim as a whole Pod, as far as it is read."""

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
        """The UIDs, in their order."""
        return [each.UID for each in self.Pods or ()]


class PreemptionArgs(msgspec.Struct):
    """ExtenderPreemptionArgs: UIDs where the scheduler's configuration says nodeCacheCapable, else whole pods."""

    Pod: msgspec.Raw
    NodeNameToVictims: dict[str, Victims] | None = None
    NodeNameToMetaVictims: dict[str, MetaVictims] | None = None

    def list_offered(self) -> dict[str, MetaVictims]:
        """Return the victims of each node, in either form as UIDs."""
        if self.NodeNameToMetaVictims is not None:
            return self.NodeNameToMetaVictims
        return {
            name: MetaVictims([MetaPod(pod.metadata.uid) for pod in each.Pods or ()], each.NumPDBViolations)
            for name, each in (self.NodeNameToVictims or {}).items()
        }


class PreemptionResult(msgspec.Struct):
    """ExtenderPreemptionResult; a node that is left out is no candidate."""

    NodeNameToMetaVictims: dict[str, MetaVictims]


def read_preemptor(text: msgspec.Raw) -> AskedPod:
    """Return the pod for which others would be evicted.

    Raises:
        msgspec.MsgspecError: it cannot be read.
    """
    return _asked.decode(text)


def needs_more_than_amounts(text: msgspec.Raw, known: frozenset[str]) -> bool:
    """Return whether a pod asks its node for more than CPU, memory and resources of ours.

    Then nobody but kube-scheduler can say whose leaving helps it.

    Args:
        text: the pod.
        known: names of the resources that are ours.
    """
    return bool(list_unread_conditions(_conditioned.decode(text).spec, known))


_asked = msgspec.json.Decoder(AskedPod)
_conditioned = msgspec.json.Decoder(_ConditionedPod)
