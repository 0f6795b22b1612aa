"""Whether accelkit's own pods find a node once a hard partition has its taints: a pure function.

A pod that runs stays where it is, so nothing is seen to be wrong until it is made anew: then it waits for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.enablement.partitioning.changes import TaintedNode
from accelkit.enablement.partitioning.desired_nodes import TAINT_EFFECT, TAINT_VALUE
from accelkit.errors import ConfigurationError
from accelkit.extender.groups.node_rules import NodeFacts, encode_rules
from accelkit.extender.groups.objects import GroupNode, GroupPodSpec
from accelkit.kube.scheduling.node_rules import Taint, TaintedSpec

# Written and taken away by Kubernetes, as for a node that is not ready or cordoned: it says nothing of tomorrow.
_PASSING: Final = "node.kubernetes.io/"


class OwnPods(msgspec.Struct, frozen=True):
    """Pods that need a node, whichever.

    Attributes:
        name: for people, as `the extender`.
        setting: the variable with their tolerations.
        spec: where they may be.
    """

    name: str
    setting: str
    spec: GroupPodSpec

    def __str__(self) -> str:
        return f"{self.name} ({self.setting})"


def read_own_pods(given: Iterable[Mapping[str, object]]) -> tuple[OwnPods, ...]:
    """Return pods as settings describe them.

    Raises:
        ConfigurationError: tolerations, node selector or affinity are not as Kubernetes has them.
    """
    found = []
    for each in given:
        try:
            found.append(msgspec.convert(each, OwnPods))
        except msgspec.ValidationError as exc:
            raise ConfigurationError(
                f"where {each.get('name')} may be cannot be read: {exc}", next_step=f"correct {each.get('setting')}"
            ) from exc
    return tuple(found)


def find_homeless(
    pods: Iterable[OwnPods], nodes: Sequence[TaintedNode], *, keys: Collection[str], tainted: Collection[str]
) -> list[OwnPods]:
    """Return the pods that these taints leave no node; who has none without them is not among them.

    Args:
        pods: to be placed.
        nodes: all of them.
        keys: of the taints.
        tainted: names of the nodes that have these taints afterwards.
    """
    before, after = NodeFacts(), NodeFacts()
    before.replace(_build(node, ()) for node in nodes)
    after.replace(_build(node, keys if node.metadata.name in tainted else ()) for node in nodes)
    found = []
    for each in pods:
        rules = encode_rules(each.spec)
        if before.list_allowed(rules) and not after.list_allowed(rules):
            found.append(each)
    return found


def _build(node: TaintedNode, keys: Collection[str]) -> GroupNode:
    """Return the node with our taints of these keys, and those of others that last."""
    others = [
        Taint(each.get("key", ""), each.get("value", ""), each.get("effect", ""))
        for each in node.taints
        if each.get("value") != TAINT_VALUE and not each.get("key", "").startswith(_PASSING)
    ]
    ours = [Taint(key, TAINT_VALUE, TAINT_EFFECT) for key in keys]
    return GroupNode(metadata=node.metadata, spec=TaintedSpec(taints=others + ours))
