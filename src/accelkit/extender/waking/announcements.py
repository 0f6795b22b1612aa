"""Decides which freed nodes are announced to kube-scheduler, how often, and for which pods.

No I/O, and the clock is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from accelkit.back_off import BackOff
from accelkit.ledger.feed import Pending
from accelkit.ledger.holding import Stage
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.table import is_simple
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.request import PodRequest
from accelkit.placement.policies import AnyPolicy

# Between two announcements of one node.
INTERVAL_SECONDS: Final = 2.0
# For so long a change is remembered while no pod waits: a refusal may reach us after the change that it did not know
# of, and a replica that begins to lead announces what its predecessor may not have.
REMEMBERED_SECONDS: Final = 30.0
_BACK_OFF: Final = BackOff(INTERVAL_SECONDS, 60.0)
# So many shapes of requests are judged at once. Where more wait, or one that only a search could judge, some pod is
# taken to fit: a write for nobody costs less than a search that holds up Bindings.
_MAX_SHAPES: Final = 32


@dataclass(slots=True)
class _Node:
    freed_at: float | None = None
    not_before: float = 0.0
    failures: int = 0


@dataclass(slots=True)
class Announcements:
    """The nodes that were freed and are to be announced, with a pause between two announcements of the same node.

    A change during the pause is announced at its end, so the last one is never lost.
    """

    _nodes: dict[str, _Node] = field(default_factory=dict)

    def note_freed(self, names: Iterable[str], now: float) -> None:
        """Note nodes that were freed."""
        for name in names:
            self._nodes.setdefault(name, _Node()).freed_at = now

    def list_due(self, now: float) -> list[str]:
        """Return the nodes that may be announced, those freed first in front, and forget what is long past."""
        for name, node in list(self._nodes.items()):
            if node.freed_at is not None and now - max(node.freed_at, node.not_before) > REMEMBERED_SECONDS:
                node.freed_at = None
            if node.freed_at is None and now >= node.not_before:
                del self._nodes[name]
        found = {name: node.freed_at for name, node in self._nodes.items() if node.freed_at is not None}
        return sorted((name for name in found if now >= self._nodes[name].not_before), key=found.__getitem__)

    def note_begun(self, name: str, now: float) -> None:
        """Note that a node is being announced: what is freed from now on needs another announcement."""
        self._nodes[name] = _Node(None, now + INTERVAL_SECONDS, self._nodes[name].failures)

    def note_written(self, name: str) -> None:
        """Note that the announcement was written."""
        self._nodes[name].failures = 0

    def note_failed(self, name: str, now: float) -> None:
        """Note that it was not: it is due again, later after each failure."""
        node = self._nodes[name]
        node.freed_at, node.failures = now, node.failures + 1
        node.not_before = now + _BACK_OFF.compute(node.failures)


class Waiting:
    """The pods that wait: refused by kube-scheduler, not bound and no Binding under way, at two looks in a row.

    Pods that kube-scheduler does not try, since they are gated or another scheduler's, cannot be woken.

    Args:
        ledger: knows whose Binding is under way, and what fits.
        policy: ranks cards where the pod does not say.
    """

    def __init__(self, ledger: Ledger, policy: AnyPolicy) -> None:
        self._ledger = ledger
        self._policy = policy
        self._verdicts = ShapeVerdicts(ledger)
        self._pending: set[str] = set()
        self._shapes: set[PodRequest] = set()
        self._by_namespace: dict[str, set[PodRequest]] = {}
        self._claimed: set[str] = set()

    def update(self, pending: Mapping[str, Pending]) -> None:
        """Take over which pods are without a node now."""
        before, self._pending = self._pending, set(pending)
        self._by_namespace = {}
        for uid in before & self._pending:
            pod, request = pending[uid].pod, pending[uid].request
            if request is not None and pod.unschedulable and self._ledger.find_holding(uid) is None:
                self._by_namespace.setdefault(pod.ref.namespace, set()).add(request)
        self._shapes = set().union(*self._by_namespace.values())
        held = filter(None, map(self._ledger.find_holding, self._pending))
        self._claimed = {each.node for each in held if each.stage is Stage.CLAIMED}

    def list_shapes(self, namespace: str) -> set[PodRequest]:
        """Return what those of a namespace ask for."""
        return self._by_namespace.get(namespace, set())

    def list_fitting(self, request: PodRequest, names: Iterable[str], most: int) -> list[str]:
        """Return some nodes that one of them may fit.

        Args:
            request: what it asks for.
            names: of the nodes that there are.
            most: how many.
        """
        fits = self._verdicts.judge(request, self._policy).fits if is_simple(request) else names
        return list(islice(fits, most))

    def fits(self, node: str) -> bool:
        """Return whether one of them may fit a node's cards now."""
        if node in self._claimed:
            # What is freed there is kept for a pod that waits.
            return True
        if len(self._shapes) > _MAX_SHAPES or not all(map(is_simple, self._shapes)):
            return True
        return any(node in self._verdicts.judge(request, self._policy).fits for request in self._shapes)
