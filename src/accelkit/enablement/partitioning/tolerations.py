"""Which pods and DaemonSets the taints of a hard partition keep out that should not be kept out: a pure function.

DaemonSets whose pods may be on a tainted node, by their selector and affinity, should bear its taints, since they are
what nodes need. Pods that ask for one of the resources should bear all taints, or no node with cards is left to them.
What is found is told, and nothing depends on it: tenants may write these objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from accelkit.enablement.ownership.objects import DaemonSet
from accelkit.enablement.partitioning.changes import TaintedNode
from accelkit.enablement.partitioning.desired_nodes import TAINT_EFFECT, TAINT_VALUE
from accelkit.extender.groups.node_rules import NodeFacts, encode_rules
from accelkit.extender.groups.objects import GroupNode, GroupPod, GroupPodSpec
from accelkit.kube.scheduling.node_rules import Taint, bears_all

# More of one kind say no more.
MOST_SHOWN: Final = 50


class Intolerant(msgspec.Struct, frozen=True, order=True):
    """Something that does not bear a taint that it should bear.

    Attributes:
        kind: DaemonSet or Pod.
        namespace: of the object.
        name: of the object.
        keys: of the taints, sorted.
    """

    kind: str
    namespace: str
    name: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name} ({', '.join(self.keys)})"


def find_intolerant(
    daemon_sets: Iterable[DaemonSet],
    pods: Iterable[GroupPod],
    nodes: Sequence[TaintedNode],
    *,
    keys: Sequence[str],
    tainted: Collection[str],
    resources: Collection[str],
) -> list[Intolerant]:
    """Return what the taints keep out and should not, sorted.

    Args:
        daemon_sets: all of them.
        pods: all of them; those that have ended do not count.
        nodes: all of them.
        keys: of the taints.
        tainted: names of the nodes with these taints.
        resources: by which pods ask for cards.
    """
    facts = NodeFacts()
    # Without their taints: those of others are others' concern.
    facts.replace(GroupNode(metadata=node.metadata) for node in nodes if node.metadata.name in tainted)
    found = [
        Intolerant("DaemonSet", each.metadata.namespace, each.metadata.name, missing)
        for each in daemon_sets
        if (missing := list_missing(each.pod_spec, keys)) and facts.list_allowed(encode_rules(each.pod_spec))
    ]
    found += [
        Intolerant("Pod", each.metadata.namespace, each.metadata.name, missing)
        for each in pods
        if not each.terminal and _asks(each.spec, resources) and (missing := list_missing(each.spec, keys))
    ]
    return sorted(found)


def list_missing(spec: GroupPodSpec, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of the taints that pods of this spec do not bear."""
    taints = {key: Taint(key, TAINT_VALUE, TAINT_EFFECT) for key in keys}
    return tuple(sorted(key for key, each in taints.items() if not bears_all(spec.tolerations or (), [each])))


def _asks(spec: GroupPodSpec, resources: Collection[str]) -> bool:
    containers = (*spec.containers, *(spec.init_containers or ()))
    return any(
        name in resources and str(amount) != "0"
        for each in containers
        for name, amount in (each.resources.limits or {}).items()
    )
