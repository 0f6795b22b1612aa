"""Selection of nodes to announce, to wake pods that a quota or an affinity blocked while cards were free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from accelkit.extender.waking.announcements import REMEMBERED_SECONDS, Waiting
from accelkit.ledger.ledger import Ledger
from accelkit.model.request import PodRequest

# Number of nodes to announce for each request shape. One node is enough, unless kube-scheduler excludes it for other
# reasons.
_NODES_PER_SHAPE: Final = 8
_MOST_SHAPES: Final = 4


@dataclass(slots=True)
class _Wakeup:
    until: float
    served: set[PodRequest] = field(default_factory=set)


class NamespaceWakeups:
    """Namespaces in which a pod that was rejected on all nodes may fit now.

    Each namespace is stored temporarily, because a refusal that did not consider a change may arrive after the change.

    Args:
        ledger: the ledger, which provides these namespaces.
        waiting: the waiting pods.
    """

    def __init__(self, ledger: Ledger, waiting: Waiting) -> None:
        self._ledger, self._waiting = ledger, waiting
        self._wakeups: dict[str, _Wakeup] = {}

    def find(self, now: float) -> list[str]:
        """Return the nodes to announce to wake the pods in these namespaces, and the nodes with new matching pods."""
        namespaces = self._ledger.namespaces
        found = dict.fromkeys(sorted(namespaces.affinity_nodes))
        namespaces.affinity_nodes.clear()
        for namespace in namespaces.retriable:
            self._wakeups[namespace] = _Wakeup(now + REMEMBERED_SECONDS)
        namespaces.retriable.clear()
        for namespace, each in list(self._wakeups.items()):
            if now > each.until:
                del self._wakeups[namespace]
                continue
            new = sorted(self._waiting.list_shapes(namespace) - each.served, key=repr)[:_MOST_SHAPES]
            each.served.update(new)
            for request in new:
                found.update(dict.fromkeys(self._list_nodes(request)))
        return list(found)

    def _list_nodes(self, request: PodRequest) -> list[str]:
        usable = (entry.name for entry in self._ledger.list_nodes() if entry.refusal is None)
        return self._waiting.list_fitting(request, usable, _NODES_PER_SHAPE)
