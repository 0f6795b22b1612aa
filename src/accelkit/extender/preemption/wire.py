"""Defines what kube-scheduler sends to preempt and reads of it: ExtenderPreemptionArgs and its result."""

from __future__ import annotations

import msgspec

from accelkit.model.asked_pod import AskedPod, AskedPodSpec


class ContainerPort(msgspec.Struct, rename="camel"):
    """A port of a container; only whether it is one of the host is read."""

    host_port: int = 0


class _Container(msgspec.Struct):
    ports: list[ContainerPort] | None = None


class _Needs(msgspec.Struct, rename="camel"):
    containers: list[_Container] = msgspec.field(default_factory=list)
    init_containers: list[_Container] | None = None
    affinity: dict[str, msgspec.Raw] | None = None
    topology_spread_constraints: list[msgspec.Raw] | None = None
    volumes: list[msgspec.Raw] | None = None
    resource_claims: list[msgspec.Raw] | None = None


class _NeedyPod(msgspec.Struct):
    spec: _Needs = msgspec.field(default_factory=_Needs)


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


def needs_more_than_amounts(text: msgspec.Raw, spec: AskedPodSpec, known: frozenset[str]) -> bool:
    """Return whether a pod asks its node for more than CPU, memory and resources of ours.

    Then nobody but kube-scheduler can say whose leaving helps it.

    Args:
        text: the pod.
        spec: of the pod.
        known: names of the resources that are ours.
    """
    needs = _needy.decode(text).spec
    containers = (*needs.containers, *(needs.init_containers or ()))
    asked = {
        name
        for each in (*spec.containers, *(spec.init_containers or ()))
        for name in (each.resources.requests or {}).keys() | (each.resources.limits or {}).keys()
    }
    # Every pod has the volume of its service account's token, which asks nothing of the node.
    volumes = [each for each in map(_volume.decode, needs.volumes or ()) if set(each) - _HARMLESS]
    return bool(
        asked - known - {"cpu", "memory"}
        or any(port.host_port for each in containers for port in each.ports or ())
        or needs.affinity is not None
        or needs.topology_spread_constraints
        or needs.resource_claims
        or volumes
    )


_HARMLESS = frozenset({"name", "projected", "configMap", "secret", "emptyDir", "downwardAPI"})
_asked = msgspec.json.Decoder(AskedPod)
_needy = msgspec.json.Decoder(_NeedyPod)
_volume = msgspec.json.Decoder(dict[str, msgspec.Raw])
