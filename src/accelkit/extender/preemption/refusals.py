"""Remembers pods that filter refused on every node where others' leaving would help; no I/O.

The nodes that kube-scheduler asks filter about are those where everything but the cards is right. So they are the ones
where an eviction is not in vain, and nobody else knows them.
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

# Of more pods, some of the namespace that has most of them are forgotten, of more nodes the last.
MOST_PODS: Final = 64
MOST_NODES: Final = 1000
# kube-scheduler looks for victims itself when filter has refused a pod, and writes what it decides.
DELAY_SECONDS: Final = 2.0
# What kube-scheduler thought of nodes longer ago says nothing; when it tries the pod again, so do we.
KEPT_SECONDS: Final = 60.0


@dataclass(slots=True)
class _Refusal:
    namespace: str
    priority: int
    since: float
    at: float
    nodes: tuple[str, ...]


class Refusals:
    """The pods that filter refused, and on which nodes.

    Args:
        clock: seconds on a clock that never jumps.
        is_member: returns for a UID whether the pod belongs to a group: nobody is evicted for one of them, since the
            others may not fit; None where groups are off.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, is_member: Callable[[str], bool] | None = None
    ) -> None:
        self._clock, self._is_member = clock, is_member
        self._by_uid: dict[str, _Refusal] = {}
        # When each namespace had its last turn, or came: a count of turns.
        self._turns = 0
        self._last_turns: dict[str, int] = {}

    def note(self, pod: Pod, nodes: Iterable[str]) -> None:
        """Note that a pod was refused on all nodes, on these because of others."""
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

    def forget(self, uid: str) -> None:
        """Forget a pod, until it is refused again."""
        self._by_uid.pop(uid, None)

    def note_turn(self, uid: str) -> None:
        """Note that a pod is looked after now: next are those of other namespaces."""
        if (found := self._by_uid.get(uid)) is not None:
            self._turns += 1
            self._last_turns[found.namespace] = self._turns

    def list_due(self, pending: Mapping[str, Pending], ledger: Ledger) -> list[str]:
        """Return the UIDs of the pods that still wait, those of the namespace whose turn it is first.

        Of one namespace, or of several that came since the last turn, those of the highest priority and then the oldest
        are first.

        Args:
            pending: the pods without a node.
            ledger: knows those whose Binding is under way, or for which others are leaving already.
        """
        now = self._clock()
        for uid, each in list(self._by_uid.items()):
            # Which group a pod belongs to may be known later than that it was refused.
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
        """Forget a pod of the namespace that has most: of the lowest priority, and the one that is known longest."""
        counts = Counter(each.namespace for each in self._by_uid.values())
        namespace = max(counts, key=lambda each: (counts[each], each))
        of_it = (uid for uid, each in self._by_uid.items() if each.namespace == namespace)
        del self._by_uid[min(of_it, key=lambda uid: (self._by_uid[uid].priority, self._by_uid[uid].since))]

    def list_nodes(self, uid: str) -> Collection[str]:
        """Return the nodes on which a pod was refused because of others."""
        found = self._by_uid.get(uid)
        return () if found is None else found.nodes


def is_waiting(pending: Pending) -> bool:
    """Return whether a pod was refused by kube-scheduler, may have others evicted, and none are for it already."""
    pod = pending.pod
    return pending.request is not None and pod.unschedulable and pod.preempts and not (pod.nominated or pod.ending)
