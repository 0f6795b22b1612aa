"""Finds nodes by which to wake pods that a quota or other pods kept off, wherever cards are free."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from accelkit.extender.waking.announcements import REMEMBERED_SECONDS, Waiting
from accelkit.ledger.ledger import Ledger
from accelkit.model.request import PodRequest

# One node will do, unless kube-scheduler keeps the pod off it for reasons of its own.
_NODES_PER_SHAPE: Final = 8
_MOST_SHAPES: Final = 4


@dataclass(slots=True)
class _Wakeup:
    until: float
    served: set[PodRequest] = field(default_factory=set)


class NamespaceWakeups:
    """The namespaces of which a pod that was refused on all nodes may have got its chance.

    Each is remembered for a while: a refusal may reach us after the change that it did not know of.

    Args:
        ledger: says which they are.
        waiting: the pods that wait.
    """

    def __init__(self, ledger: Ledger, waiting: Waiting) -> None:
        self._ledger, self._waiting = ledger, waiting
        self._stirred: dict[str, _Wakeup] = {}

    def find(self, now: float) -> list[str]:
        """Return the nodes by which to wake pods of theirs, and those on which others have got company."""
        namespaces = self._ledger.namespaces
        found = dict.fromkeys(sorted(namespaces.met))
        namespaces.met.clear()
        for namespace in namespaces.stirred:
            self._stirred[namespace] = _Wakeup(now + REMEMBERED_SECONDS)
        namespaces.stirred.clear()
        for namespace, each in list(self._stirred.items()):
            if now > each.until:
                del self._stirred[namespace]
                continue
            new = sorted(self._waiting.list_shapes(namespace) - each.served, key=repr)[:_MOST_SHAPES]
            each.served.update(new)
            for request in new:
                found.update(dict.fromkeys(self._list_nodes(request)))
        return list(found)

    def _list_nodes(self, request: PodRequest) -> list[str]:
        usable = (entry.name for entry in self._ledger.list_nodes() if entry.refusal is None)
        return self._waiting.list_fitting(request, usable, _NODES_PER_SHAPE)
