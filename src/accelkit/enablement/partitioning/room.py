"""Pure function that checks whether accelkit's own pods can be scheduled despite the taints of a hard partition.

Running pods remain on their nodes. Without this check, the lack of a suitable node would be detected only when a
replacement pod remains pending.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.enablement.partitioning.changes import TaintedNode
from accelkit.enablement.partitioning.desired_nodes import TAINT_EFFECT, TAINT_VALUE
from accelkit.errors import ConfigurationError
from accelkit.kube.scheduling.allowed_nodes import SchedulingFacts, encode_rules
from accelkit.kube.views.scheduling import SchedulingNode, SchedulingPodSpec, Taint, TaintedSpec

# Temporary taints that Kubernetes sets and removes, for example for a node that is not ready or is cordoned.
_PASSING: Final = "node.kubernetes.io/"


class OwnPods(msgspec.Struct, frozen=True):
    """Pods that need at least one node.

    Attributes:
        name: the name in messages, for example `the extender`.
        setting: the variable that sets their tolerations.
        spec: the scheduling constraints of the pods.
    """

    name: str
    setting: str
    spec: SchedulingPodSpec

    def __str__(self) -> str:
        return f"{self.name} ({self.setting})"


def read_own_pods(given: Iterable[Mapping[str, object]]) -> tuple[OwnPods, ...]:
    """Return accelkit's own pods, as specified in the settings.

    Raises:
        ConfigurationError: the tolerations, node selector or affinity are invalid.
    """
    found = []
    for each in given:
        try:
            found.append(msgspec.convert(each, OwnPods))
        except msgspec.ValidationError as exc:
            raise ConfigurationError(
                f"cannot read the constraints of {each.get('name')}: {exc}", next_step=f"correct {each.get('setting')}"
            ) from exc
    return tuple(found)


def find_stranded(
    pods: Iterable[OwnPods], nodes: Sequence[TaintedNode], *, keys: Collection[str], tainted: Collection[str]
) -> list[OwnPods]:
    """Return the pods that these taints exclude from all nodes, except pods that already do not fit on any node.

    Args:
        pods: the pods to place.
        nodes: all nodes.
        keys: the keys of the taints.
        tainted: names of the nodes that will have these taints.
    """
    before, after = SchedulingFacts(), SchedulingFacts()
    before.replace(_build(node, ()) for node in nodes)
    after.replace(_build(node, keys if node.metadata.name in tainted else ()) for node in nodes)
    found = []
    for each in pods:
        rules = encode_rules(each.spec)
        if before.list_allowed(rules) and not after.list_allowed(rules):
            found.append(each)
    return found


def _build(node: TaintedNode, keys: Collection[str]) -> SchedulingNode:
    """Return the node with accelkit's taints for these keys, and with the permanent taints from other clients."""
    others = [
        Taint(each.get("key", ""), each.get("value", ""), each.get("effect", ""))
        for each in node.taints
        if each.get("value") != TAINT_VALUE and not each.get("key", "").startswith(_PASSING)
    ]
    ours = [Taint(key, TAINT_VALUE, TAINT_EFFECT) for key in keys]
    return SchedulingNode(metadata=node.metadata, spec=TaintedSpec(taints=others + ours))
