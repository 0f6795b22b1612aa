"""Nodes whose announcement wakes pods that were blocked by a quota or by other pods although cards are free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from accelkit.extender.waking.announcements import REMEMBERED_SECONDS, Waiting
from accelkit.ledger.ledger import Ledger
from accelkit.model.request import PodRequest

# One node is enough, unless kube-scheduler excludes the pod from it for other reasons.
_NODES_PER_SHAPE: Final = 8
_MOST_SHAPES: Final = 4


@dataclass(slots=True)
class _Wakeup:
    until: float
    served: set[PodRequest] = field(default_factory=set)


class NamespaceWakeups:
    """The namespaces in which a pod that was refused on all nodes may fit now.

    Each namespace is kept for a while, because a refusal may be received after the change that it ignored.

    Args:
        ledger: provides these namespaces.
        waiting: the pods that wait.
    """

    def __init__(self, ledger: Ledger, waiting: Waiting) -> None:
        self._ledger, self._waiting = ledger, waiting
        self._wakeups: dict[str, _Wakeup] = {}

    def find(self, now: float) -> list[str]:
        """Return the nodes whose announcement wakes the pods in these namespaces, and nodes that a match joined."""
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
