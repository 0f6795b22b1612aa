"""Holds what is reserved for groups, until it is bound or withdrawn. No I/O, and the clock is the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from accelkit.errors import RequestError
from accelkit.extender.groups.group_index import Group, Member
from accelkit.extender.groups.membership import GroupKey
from accelkit.extender.groups.node_rules import MOST_BYTES, MOST_REQUIREMENTS, MOST_VALUES, TOO_MANY
from accelkit.extender.groups.pacing import Patience
from accelkit.extender.groups.reserving import GroupReserver, Shortage, Wanted
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import Stage
from accelkit.ledger.ledger import Ledger
from accelkit.model.host_amounts import NOTHING, HostAmounts
from accelkit.model.pod import PodRef

_TOO_MANY_RULES: Final = RequestError(
    f"its node selector, required node affinity and tolerations are more than {MOST_REQUIREMENTS} requirements, "
    f"{MOST_VALUES} values or {MOST_BYTES >> 10} KiB",
    next_step="label the nodes that it may have, and ask for that label",
)
# Of so many groups it is kept how they stand.
_MOST_JUDGED: Final = 4


@dataclass(slots=True)
class Batch:
    """What is reserved for one group.

    Attributes:
        reserved_at: the time of the first reservation.
        seconds: how long the reservations last from then on.
        members: those that hold cards and are not bound yet, with what they request of their hosts, by UID.
        gated: whether our gate kept some of them, so that all are placed before kube-scheduler saw the first.
        arrived: without a gate, those that kube-scheduler has placed since the reservation.
        opened: whether so many have arrived that all may be bound.
        withdrawn: why it is over; empty while it is not.
    """

    reserved_at: float
    seconds: float
    members: dict[str, tuple[PodRef, HostAmounts]] = field(default_factory=dict)
    gated: bool = False
    arrived: set[str] = field(default_factory=set)
    opened: bool = False
    withdrawn: str = ""


@dataclass(frozen=True, slots=True)
class GroupState:
    """Where a group stands.

    Attributes:
        there: how many there are that could be placed, or are.
        settled: how many need no card any more: bound, reserved for, or asking for none.
        held: how many of them hold cards that are reserved for the group, and are not bound.
        kept: how many are under gates of others.
        lacking: those that hold nothing yet.
        liftable: those whose gate nothing keeps but the rest of the group.
        refusal: what one of them asks for that cannot be granted; None where there is no such pod.
    """

    there: int
    settled: int
    held: int
    kept: int
    lacking: tuple[Wanted, ...]
    liftable: tuple[Member, ...]
    refusal: tuple[PodRef, RequestError] | None


class Batches:
    """What is reserved for all groups.

    Args:
        ledger: where it is reserved.
        feed: knows what pods that wait ask for.
        reserver: finds the cards.
        seconds: how long the reservations of a group last.
        gather_seconds: how long they last until kube-scheduler has placed enough members without gates.
        is_busy: returns whether a Binding of a pod is on its way, or its outcome unknown.
    """

    def __init__(
        self,
        ledger: Ledger,
        feed: LedgerFeed,
        reserver: GroupReserver,
        *,
        seconds: float,
        gather_seconds: float,
        is_busy: Callable[[str], bool],
    ) -> None:
        self._ledger, self._feed, self._reserver = ledger, feed, reserver
        self._seconds, self._gather_seconds, self._is_busy = seconds, gather_seconds, is_busy
        self._batches: dict[GroupKey, Batch] = {}
        self._where: dict[str, GroupKey] = {}
        self._patience = Patience()
        # Groups whose members did not all come to bind in time, and until when nothing is reserved for them.
        self._paused: dict[GroupKey, float] = {}
        # Pods whose reservation ended before they were bound.
        self._had: set[str] = set()
        # How often the members of batches have changed, and what was judged last.
        self._changes = 0
        self._judged: dict[GroupKey, tuple[Group, tuple[object, ...], GroupState]] = {}

    def find(self, key: GroupKey) -> Batch | None:
        """Return what is reserved for a group, None for nothing."""
        return self._batches.get(key)

    def find_of(self, uid: str) -> GroupKey | None:
        """Return the group for which a pod's cards are reserved, None where it is not bound by one."""
        return self._where.get(uid)

    def has_tried_enough(self, namespace: str, now: float) -> bool:
        """Return whether so many pods of a namespace were just tried in vain that none of its groups is tried now."""
        return self._patience.is_lost(namespace, now)

    def list_keys(self) -> list[GroupKey]:
        """Return the groups for which something is reserved."""
        return list(self._batches)

    def list_uids(self) -> list[str]:
        """Return the pods for which something is reserved."""
        return list(self._where)

    def find_node(self, uid: str) -> str:
        """Return where cards are held for a pod, empty where none are."""
        held = self._ledger.find_holding(uid)
        return "" if held is None else held.node

    def has_cards(self, uid: str) -> bool:
        """Return whether cards are reserved for a pod, or its own; what others are evicted for is not yet."""
        held = self._ledger.find_holding(uid)
        return held is not None and held.stage is not Stage.CLAIMED

    def judge(self, group: Group) -> GroupState:
        """Return where a group stands; many ask of the same group before anything changes."""
        ledger = self._ledger
        now = group.version, group.seen, ledger.table.tick, self._changes, ledger.namespaces.rules
        known = self._judged.get(group.key)
        if known is None or known[0] is not group or known[1] != now:
            self._judged.pop(group.key, None)
            if len(self._judged) >= _MOST_JUDGED:
                del self._judged[next(iter(self._judged))]
            known = self._judged[group.key] = group, now, self._judge(group)
        return known[2]

    def _judge(self, group: Group) -> GroupState:
        batch, kept = self._batches.get(group.key), 0
        held = sum(1 for uid in batch.members if self._ledger.find_holding(uid)) if batch else 0
        settled, lacking, liftable, refusal = len(group.done), list[Wanted](), list[Member](), None
        there = settled
        for uid, member in group.waiting.items():
            if member.kept:
                kept += 1
                continue
            pending = self._feed.pending.get(uid)
            if pending is not None and pending.refusal is not None:
                refusal = member.ref, pending.refusal
                continue
            lacks = pending is not None and pending.request is not None and not self.has_cards(uid)
            if lacks and member.rules == TOO_MANY:
                refusal = member.ref, _TOO_MANY_RULES
                continue
            there += 1
            if pending is not None and pending.request is not None and lacks:
                labels = pending.pod.labels
                lacking.append(
                    Wanted(member.ref, pending.request, pending.task, member.host, member.rules, labels=labels)
                )
                continue
            settled += 1
            if member.gated:
                liftable.append(member)
        return GroupState(there, settled, held, kept, tuple(lacking), tuple(liftable), refusal)

    def reserve(self, group: Group, size: int, now: float, *, uid: str = "", node: str = "") -> str:
        """Reserve for all of a group that hold nothing, or for none; return why not, empty where it was done.

        Args:
            group: whose members.
            size: how many have to be settled in the end.
            now: the time.
            uid: a pod that comes to bind, and may have one node alone; empty where none does.
            node: that one.
        """
        state = self.judge(group)
        if reason := describe_missing(group, state, size):
            return reason
        lacking = [each for each in state.lacking if uid or not self._has_had(group, each.ref.uid)]
        least = max(0, size - state.settled)
        if len(lacking) < least:
            left = len(state.lacking) - len(lacking)
            return f"pod group {group.key} waits: kube-scheduler has to bring {left} of its pods without gates to bind"
        if not lacking:
            return ""
        pinned = [replace(each, node=node) if each.ref.uid == uid else each for each in lacking]
        if self.has_tried_enough(namespace := group.key.namespace, now):
            return f"pod group {group.key} waits: of namespace {namespace}, too many pods were just tried in vain"
        for each in pinned:
            # A Binding that was refused has released its cards, and the pod may have another group since.
            self.leave(each.ref.uid, group.key)
        done = self._reserver.reserve(pinned, max(1, least), self._sum_up_hosts())
        if isinstance(done, Shortage):
            self._patience.note(namespace, len(pinned), now)
            unjudged = ", whose rules of nodes are too many for this cluster's nodes" if done.unjudged else ""
            return (
                f"pod group {group.key} does not fit as a whole: room for {state.settled + done.fitted} of {size} "
                f"pods, and not for {done.first.name}{unjudged}"
            )
        self._changes += 1
        # A member that joins later has no more time: else a group could keep its cards as long as its creator likes.
        batch = self._batches.setdefault(group.key, Batch(reserved_at=now, seconds=self._gather_seconds))
        for ref in done:
            member = group.waiting[ref.uid]
            batch.members[ref.uid] = ref, member.host
            batch.gated = batch.gated or member.gated
            self._where[ref.uid] = group.key
        if batch.gated:
            batch.seconds = self._seconds
        return ""

    def open(self, batch: Batch) -> None:
        """Let all members of a batch be bound: kube-scheduler has placed enough of them."""
        batch.opened = True
        batch.seconds = self._seconds

    def leave(self, uid: str, key: GroupKey) -> None:
        """Note that a pod belongs to this group now: what is reserved for it with another one is released."""
        if self._where.get(uid, key) != key:
            self.end(uid, bound=False)

    def end(self, uid: str, *, bound: bool) -> None:
        """Note that a pod is bound, or is no member any more."""
        key = self._where.pop(uid, None)
        if key is None:
            return
        self._changes += 1
        batch = self._batches[key]
        del batch.members[uid]
        batch.arrived.discard(uid)
        # A Binding on its way may still take effect; whoever sent it releases what it leaves.
        if not bound and not self._is_busy(uid):
            self._release(uid)
        if not bound and uid in self._feed.pending:
            self._had.add(uid)
        if not batch.members:
            del self._batches[key]

    def withdraw(self, key: GroupKey, reason: str) -> list[PodRef]:
        """Release what is reserved for a group and not on its way; return whose it was.

        Args:
            key: the group.
            reason: is told to those that wait for the others.
        """
        batch = self._batches.pop(key, None)
        if batch is None:
            return []
        self._changes += 1
        batch.withdrawn = reason
        self._had &= self._feed.pending.keys()
        released = []
        for uid, (ref, _) in batch.members.items():
            self._where.pop(uid, None)
            self._had.add(uid)
            if not self._is_busy(uid) and self._release(uid):
                released.append(ref)
        return released

    def list_overdue(self, now: float) -> list[tuple[GroupKey, Batch]]:
        """Return the groups whose reservations end now."""
        return [(key, each) for key, each in self._batches.items() if now >= each.reserved_at + each.seconds]

    def pause(self, key: GroupKey, until: float, now: float) -> None:
        """Note until when nothing is reserved for members that come to bind, so that other pods get a turn."""
        self._paused = {each: end for each, end in self._paused.items() if end > now}
        self._paused[key] = until

    def describe_pause(self, key: GroupKey, now: float) -> str:
        """Return why nothing is reserved for a group now, empty where it is not paused."""
        left = self._paused.get(key, now) - now
        if left <= 0:
            return ""
        return f"pod group {key} waits {left:.0f} s: kube-scheduler did not place enough of its pods in time"

    def _has_had(self, group: Group, uid: str) -> bool:
        """Return whether a pod without a gate has had its reservation: the next one is made when it comes to bind."""
        return uid in self._had and not group.waiting[uid].gated

    def _release(self, uid: str) -> bool:
        held = self._ledger.find_holding(uid)
        return held is not None and held.stage is Stage.RESERVED and self._ledger.release(uid)

    def _sum_up_hosts(self) -> dict[str, HostAmounts]:
        taken: dict[str, HostAmounts] = {}
        for batch in self._batches.values():
            for uid, (_, host) in batch.members.items():
                if (held := self._ledger.find_holding(uid)) is not None:
                    taken[held.node] = taken.get(held.node, NOTHING) + host
        return taken


def describe_missing(group: Group, state: GroupState, size: int) -> str:
    """Return which pods a group waits for, empty where all are there."""
    if state.there >= size:
        return ""
    if state.refusal is not None:
        ref, refusal = state.refusal
        return f"pod group {group.key} waits: pod {ref.name} asks for what cannot be granted: {refusal}"
    others = f", and {state.kept} more under scheduling gates of others" if state.kept else ""
    return f"pod group {group.key} waits: {state.there} of {size} pods are there{others}"
