"""Pods that filter rejected on every node, but for which an eviction on some nodes would help.

kube-scheduler calls filter with the nodes that satisfy all other requirements of the pod. An eviction helps only on
these nodes. The evictor gets the list of these nodes only from calls to filter.

This module performs no I/O.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from accelkit.ledger.feed import Pending
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import NEVER_PREEMPTS, Pod

# Maximum number of pods, and of nodes for each pod. Above these limits, one pod of the namespace with the most pods is
# dropped, or the last nodes are dropped.
MOST_PODS: Final = 64
MOST_NODES: Final = 1000
# Delay after the refusal of a pod. During this time, kube-scheduler searches for victims and writes its decision.
DELAY_SECONDS: Final = 2.0
# Maximum age of a list of nodes. kube-scheduler sends a new list when it tries the pod again.
KEPT_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Refusal:
    namespace: str
    priority: int
    since: float
    at: float
    nodes: tuple[str, ...]


class Refusals:
    """Pods that filter rejected, and the nodes on which an eviction may help.

    Args:
        clock: a function that returns the seconds of a monotonic clock.
        is_member: a function that returns whether the pod with a given UID belongs to a group; None if groups are
            disabled. Pods are not evicted for a member of a group, because the other members may not fit.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, is_member: Callable[[str], bool] | None = None
    ) -> None:
        self._clock, self._is_member = clock, is_member
        self._by_uid: dict[str, _Refusal] = {}
        # Number of turns so far. For each namespace, the number at its last turn is stored, initially at its first pod.
        self._turns = 0
        self._last_turns: dict[str, int] = {}

    def note(self, pod: Pod, nodes: Iterable[str]) -> None:
        """Record that a pod was rejected on all nodes; on the given nodes, other pods are the reason."""
        if pod.spec.preemption_policy == NEVER_PREEMPTS or pod.status.nominated_node_name:
            return
        named, now, uid = tuple(islice(nodes, MOST_NODES)), self._clock(), pod.metadata.uid
        known = self._by_uid.pop(uid, None)
        if not named or (self._is_member is not None and self._is_member(uid)):
            return
        namespace, since = pod.metadata.namespace, known.since if known else now
        self._by_uid[uid] = _Refusal(namespace, pod.spec.priority or 0, since, now, named)
        self._last_turns.setdefault(namespace, self._turns)
        if len(self._by_uid) > MOST_PODS:
            self._drop_one()

    def discard(self, uid: str) -> None:
        """Discard a pod; the next refusal adds it again."""
        self._by_uid.pop(uid, None)

    def note_turn(self, uid: str) -> None:
        """Record that a pod is being handled, so that pods of other namespaces are handled next."""
        if (found := self._by_uid.get(uid)) is not None:
            self._turns += 1
            self._last_turns[found.namespace] = self._turns

    def list_due(self, pending: Mapping[str, Pending], ledger: Ledger) -> list[str]:
        """Return the UIDs of the pods that still wait, ordered by the last turn of their namespaces, oldest first.

        Pods of one namespace, and pods of new namespaces, are ordered by priority, then by the age of the refusal.

        Args:
            pending: the pods without a node.
            ledger: the ledger; pods with reserved or claimed cards are excluded.
        """
        now = self._clock()
        for uid, each in list(self._by_uid.items()):
            # The membership of a pod in a group may become known after its refusal.
            member = self._is_member is not None and self._is_member(uid)
            if uid not in pending or member or now - each.at > KEPT_SECONDS:
                del self._by_uid[uid]
        due = [uid for uid, each in self._by_uid.items() if now - each.since >= DELAY_SECONDS]
        due = [uid for uid in due if is_waiting(pending[uid]) and ledger.find_holding(uid) is None]
        there = {each.namespace for each in self._by_uid.values()}
        self._last_turns = {namespace: turn for namespace, turn in self._last_turns.items() if namespace in there}
        return sorted(due, key=self._rank)

    def _rank(self, uid: str) -> tuple[int, int, float, str]:
        found = self._by_uid[uid]
        return self._last_turns[found.namespace], -found.priority, found.since, uid

    def _drop_one(self) -> None:
        """Drop the pod with the lowest priority, or else the oldest refusal, from the namespace with the most pods."""
        counts = Counter(each.namespace for each in self._by_uid.values())
        namespace = max(counts, key=lambda each: (counts[each], each))
        of_it = (uid for uid, each in self._by_uid.items() if each.namespace == namespace)
        del self._by_uid[min(of_it, key=lambda uid: (self._by_uid[uid].priority, self._by_uid[uid].since))]

    def list_nodes(self, uid: str) -> Collection[str]:
        """Return the nodes on which a pod was rejected because of other pods."""
        found = self._by_uid.get(uid)
        return () if found is None else found.nodes


def is_waiting(pending: Pending) -> bool:
    """Return whether kube-scheduler rejected the pod, the pod may preempt, and no preemption is in progress for it."""
    pod = pending.pod
    return pending.request is not None and pod.unschedulable and pod.preempts and not (pod.nominated or pod.ending)
