"""Pure function that finds the pods and DaemonSets that the taints of a hard partition wrongly exclude.

DaemonSets whose selector and affinity allow pods on a tainted node should tolerate the taints, because nodes need these
DaemonSets. Pods that request one of the resources should tolerate all taints, because otherwise they do not fit on any
node with cards. The result is only reported, because tenants may own these objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from accelkit.enablement.ownership.objects import DaemonSet
from accelkit.enablement.partitioning.changes import TaintedNode
from accelkit.enablement.partitioning.desired_nodes import TAINT_EFFECT, TAINT_VALUE
from accelkit.kube.scheduling.allowed_nodes import SchedulingFacts, encode_rules
from accelkit.kube.scheduling.node_rules import tolerates_all
from accelkit.kube.views.scheduling import SchedulingNode, SchedulingPod, SchedulingPodSpec, Taint

# The maximum number of objects of each kind in a report.
MOST_LISTED: Final = 50


class Intolerant(msgspec.Struct, frozen=True, order=True):
    """An object that does not tolerate a taint that it should tolerate.

    Attributes:
        kind: DaemonSet or Pod.
        namespace: the namespace of the object.
        name: the name of the object.
        keys: the keys of the taints, sorted.
    """

    kind: str
    namespace: str
    name: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name} ({', '.join(self.keys)})"


def find_intolerant(
    daemon_sets: Iterable[DaemonSet],
    pods: Iterable[SchedulingPod],
    nodes: Sequence[TaintedNode],
    *,
    keys: Sequence[str],
    tainted: Collection[str],
    resources: Collection[str],
) -> list[Intolerant]:
    """Return the objects that the taints exclude but should not exclude, sorted.

    Args:
        daemon_sets: all DaemonSets.
        pods: all pods; terminated pods are ignored.
        nodes: all nodes.
        keys: the keys of the taints.
        tainted: names of the nodes with these taints.
        resources: the resources that pods use to request cards.
    """
    facts = SchedulingFacts()
    # Other taints on the nodes are ignored.
    facts.replace(SchedulingNode(metadata=node.metadata) for node in nodes if node.metadata.name in tainted)
    found = [
        Intolerant("DaemonSet", each.metadata.namespace, each.metadata.name, missing)
        for each in daemon_sets
        if (missing := list_missing(each.pod_spec, keys)) and facts.list_allowed(encode_rules(each.pod_spec))
    ]
    found += [
        Intolerant("Pod", each.metadata.namespace, each.metadata.name, missing)
        for each in pods
        if not each.terminal and _requests(each.spec, resources) and (missing := list_missing(each.spec, keys))
    ]
    return sorted(found)


def list_missing(spec: SchedulingPodSpec, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of the taints that pods with this spec do not tolerate."""
    taints = {key: Taint(key, TAINT_VALUE, TAINT_EFFECT) for key in keys}
    return tuple(sorted(key for key, each in taints.items() if not tolerates_all(spec.tolerations or (), [each])))


def _requests(spec: SchedulingPodSpec, resources: Collection[str]) -> bool:
    containers = (*spec.containers, *(spec.init_containers or ()))
    return any(
        name in resources and str(amount) != "0"
        for each in containers
        for name, amount in (each.resources.limits or {}).items()
    )
