"""Selection of the freed nodes to announce to kube-scheduler, and of the time of the announcement.

The module performs no I/O, and the caller provides the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from accelkit.back_off import BackOff
from accelkit.ledger.feed import Pending
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.table import is_simple
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.request import PodRequest
from accelkit.placement.policies import AnyPolicy

# Minimum time between two announcements of one node.
INTERVAL_SECONDS: Final = 2.0
# Time for which a change is stored while no pod waits. A refusal that did not consider the change may arrive after the
# change. A new leader announces changes that the previous leader may have missed.
REMEMBERED_SECONDS: Final = 30.0
_BACK_OFF: Final = BackOff(INTERVAL_SECONDS, 60.0)
# Maximum number of request shapes that are checked. If there are more shapes, or if a shape requires a search, a pod is
# assumed to fit, because an unnecessary write costs less than a search that delays Bindings.
_MAX_SHAPES: Final = 32


@dataclass(slots=True)
class _Node:
    freed_at: float | None = None
    not_before: float = 0.0
    failures: int = 0


@dataclass(slots=True)
class Announcements:
    """Nodes with freed cards to announce, with a pause between two announcements of the same node.

    A change during the pause is announced when the pause ends, so the last change is never lost.
    """

    _nodes: dict[str, _Node] = field(default_factory=dict)

    def note_freed(self, names: Iterable[str], now: float) -> None:
        """Record nodes on which cards were freed."""
        for name in names:
            self._nodes.setdefault(name, _Node()).freed_at = now

    def list_due(self, now: float) -> list[str]:
        """Return the nodes that may be announced, in the order of their changes; drop expired changes."""
        for name, node in list(self._nodes.items()):
            if node.freed_at is not None and now - max(node.freed_at, node.not_before) > REMEMBERED_SECONDS:
                node.freed_at = None
            if node.freed_at is None and now >= node.not_before:
                del self._nodes[name]
        found = {name: node.freed_at for name, node in self._nodes.items() if node.freed_at is not None}
        return sorted((name for name in found if now >= self._nodes[name].not_before), key=found.__getitem__)

    def note_begun(self, name: str, now: float) -> None:
        """Record that a node is being announced; later changes require another announcement."""
        self._nodes[name] = _Node(None, now + INTERVAL_SECONDS, self._nodes[name].failures)

    def note_written(self, name: str) -> None:
        """Record that the announcement of a node was written."""
        self._nodes[name].failures = 0

    def note_failed(self, name: str, now: float) -> None:
        """Record that the announcement of a node failed; the delay before the retry grows with each failure."""
        node = self._nodes[name]
        node.freed_at, node.failures = now, node.failures + 1
        node.not_before = now + _BACK_OFF.compute(node.failures)


class Waiting:
    """Pods that kube-scheduler rejected, and that had no node and no Binding in progress at two successive updates.

    Pods that kube-scheduler does not try, because they have gates or use another scheduler, are excluded.

    Args:
        ledger: the ledger with the Bindings in progress, which decides whether a pod fits.
        policy: the policy that ranks cards if the pod does not name one.
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
        """Set the current pods without a node."""
        before, self._pending = self._pending, set(pending)
        self._by_namespace = {}
        for uid in before & self._pending:
            pod, request = pending[uid].pod, pending[uid].request
            if request is not None and pod.unschedulable and self._ledger.find_holding(uid) is None:
                self._by_namespace.setdefault(pod.ref.namespace, set()).add(request)
        self._shapes = set().union(*self._by_namespace.values())
        held = filter(None, map(self._ledger.find_holding, self._pending))
        self._claimed = {each.node for each in held if each.stage is ShareStage.CLAIMED}

    def list_shapes(self, namespace: str) -> set[PodRequest]:
        """Return the requests of the waiting pods of a namespace."""
        return self._by_namespace.get(namespace, set())

    def list_fitting(self, request: PodRequest, names: Iterable[str], most: int) -> list[str]:
        """Return nodes on which a pod may fit.

        Args:
            request: the request of the pod.
            names: the names of all nodes.
            most: the maximum number of nodes to return.
        """
        fits = self._verdicts.judge(request, self._policy).fits if is_simple(request) else names
        return list(islice(fits, most))

    def fits(self, node: str) -> bool:
        """Return whether a waiting pod may fit a node's cards now."""
        if node in self._claimed:
            # Amounts that become free on the node are claimed for a waiting pod.
            return True
        if len(self._shapes) > _MAX_SHAPES or not all(map(is_simple, self._shapes)):
            return True
        return any(node in self._verdicts.judge(request, self._policy).fits for request in self._shapes)
