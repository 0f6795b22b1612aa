"""Reservations for groups until the pods are bound or the reservations are withdrawn.

This module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from accelkit.errors import RequestError
from accelkit.extender.groups.group_index import Group, Member
from accelkit.extender.groups.membership import GroupKey
from accelkit.extender.groups.pacing import Patience
from accelkit.extender.groups.reserving import GroupReserver, Shortage, UnplacedPod
from accelkit.kube.scheduling.allowed_nodes import MOST_BYTES, MOST_REQUIREMENTS, MOST_VALUES, TOO_MANY
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.host_amounts import NOTHING, HostAmounts
from accelkit.model.pod import PodRef

_TOO_MANY_RULES: Final = RequestError(
    f"its node selector, required node affinity and tolerations exceed {MOST_REQUIREMENTS} requirements, "
    f"{MOST_VALUES} values or {MOST_BYTES >> 10} KiB",
    next_step="label the permitted nodes, and select that label",
)
# Number of groups whose state is cached.
_MOST_JUDGED: Final = 4


@dataclass(slots=True)
class Batch:
    """The reservations of one group.

    Attributes:
        reserved_at: the time of the first reservation.
        seconds: the duration of the reservations from this time.
        members: the members that have cards and are not bound yet, with their host requests, by UID.
        gated: whether some members have accelkit's gate; if so, cards are reserved for all members before
            kube-scheduler tries the first member.
        arrived: the members that kube-scheduler has placed since the reservation; used only without gates.
        opened: whether enough members have arrived to bind all members.
        withdrawn: the reason why the reservations were withdrawn; empty while they exist.
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
    """State of a group.

    Attributes:
        there: the number of pods that can be placed or are already placed.
        settled: the number of pods that do not need more cards, because they are bound, have a reservation, or do not
            request cards.
        held: the number of settled pods that have reserved cards and are not bound.
        kept: the number of pods with gates from other controllers.
        lacking: the pods that do not have cards yet.
        liftable: the pods whose gate can be lifted when the whole group has cards.
        refusal: a pod that cannot be placed, with the reason; None if all pods can be placed.
    """

    there: int
    settled: int
    held: int
    kept: int
    lacking: tuple[UnplacedPod, ...]
    liftable: tuple[Member, ...]
    refusal: tuple[PodRef, RequestError] | None


class Batches:
    """The reservations of all groups.

    Args:
        ledger: the ledger with the reservations.
        feed: the feed with the requests of waiting pods.
        reserver: the component that reserves cards.
        seconds: the duration of the reservations of a group.
        gather_seconds: the duration of the reservations until kube-scheduler has placed enough members without gates.
        is_busy: a function that returns whether a Binding of a pod is in progress, or its outcome is unknown.
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
        # Groups for which kube-scheduler did not place all members in time, with the end of their pause.
        self._paused: dict[GroupKey, float] = {}
        # Pods whose reservation expired before they were bound.
        self._expired: set[str] = set()
        # Number of changes to the members of batches, and the cached group states.
        self._changes = 0
        self._judged: dict[GroupKey, tuple[Group, tuple[object, ...], GroupState]] = {}

    def find(self, key: GroupKey) -> Batch | None:
        """Return the reservations of a group; None if it has none."""
        return self._batches.get(key)

    def find_of(self, uid: str) -> GroupKey | None:
        """Return the group for which a pod's cards are reserved; None if no group has reserved them."""
        return self._where.get(uid)

    def has_tried_enough(self, namespace: str, now: float) -> bool:
        """Return whether the groups of a namespace are not tried now, because too many of its pods did not fit."""
        return self._patience.is_lost(namespace, now)

    def list_keys(self) -> list[GroupKey]:
        """Return the groups with reservations."""
        return list(self._batches)

    def list_uids(self) -> list[str]:
        """Return the pods with reservations."""
        return list(self._where)

    def find_node(self, uid: str) -> str:
        """Return the node on which a pod has cards; empty if the pod has no cards."""
        held = self._ledger.find_holding(uid)
        return "" if held is None else held.node

    def has_cards(self, uid: str) -> bool:
        """Return whether a pod has reserved or bound cards; claimed cards do not count."""
        held = self._ledger.find_holding(uid)
        return held is not None and held.stage is not ShareStage.CLAIMED

    def judge(self, group: Group) -> GroupState:
        """Return the state of a group, which is cached until the group or the ledger changes."""
        ledger = self._ledger
        now = group.version, group.event_count, ledger.table.tick, self._changes, ledger.namespaces.rules
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
        settled, lacking, liftable, refusal = len(group.done), list[UnplacedPod](), list[Member](), None
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
                    UnplacedPod(member.ref, pending.request, pending.task, member.host, member.rules, labels=labels)
                )
                continue
            settled += 1
            if member.gated:
                liftable.append(member)
        return GroupState(there, settled, held, kept, tuple(lacking), tuple(liftable), refusal)

    def reserve(self, group: Group, size: int, now: float, *, uid: str = "", node: str = "") -> str:
        """Reserve cards for all pods in a group that have no cards; return the reason for a failure, otherwise "".

        Args:
            group: the group.
            size: the number of pods that must be settled afterwards.
            now: the current time.
            uid: the UID of a pod that is being bound to a specific node; empty if there is no such pod.
            node: the node to which this pod is being bound.
        """
        state = self.judge(group)
        if reason := describe_missing(group, state, size):
            return reason
        lacking = [each for each in state.lacking if uid or not self._has_expired(group, each.ref.uid)]
        least = max(0, size - state.settled)
        if len(lacking) < least:
            left = len(state.lacking) - len(lacking)
            return f"pod group {group.key} waits: kube-scheduler must place {left} of its pods without gates"
        if not lacking:
            return ""
        pinned = [replace(each, node=node) if each.ref.uid == uid else each for each in lacking]
        if self.has_tried_enough(namespace := group.key.namespace, now):
            return f"pod group {group.key} waits: too many pods of namespace {namespace} did not fit recently"
        for each in pinned:
            # A rejected Binding has released the cards of the pod, which may have joined another group since.
            self.leave(each.ref.uid, group.key)
        done = self._reserver.reserve(pinned, max(1, least), self._sum_up_hosts())
        if isinstance(done, Shortage):
            self._patience.note(namespace, len(pinned), now)
            unjudged = ", which has too many node rules to check on all nodes" if done.unjudged else ""
            return (
                f"pod group {group.key} does not fit as a whole: room for {state.settled + done.fitted} of {size} "
                f"pods, but not for {done.first.name}{unjudged}"
            )
        self._changes += 1
        # A later member does not extend the duration. Otherwise, a user could hold the cards indefinitely by adding
        # pods.
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
        """Allow the binds of all members of a batch, because kube-scheduler has placed enough members."""
        batch.opened = True
        batch.seconds = self._seconds

    def leave(self, uid: str, key: GroupKey) -> None:
        """Record that a pod belongs to this group, and release the pod's reservation for any other group."""
        if self._where.get(uid, key) != key:
            self.end(uid, bound=False)

    def end(self, uid: str, *, bound: bool) -> None:
        """Record that a pod is bound, or is no longer a member."""
        key = self._where.pop(uid, None)
        if key is None:
            return
        self._changes += 1
        batch = self._batches[key]
        del batch.members[uid]
        batch.arrived.discard(uid)
        # A Binding in progress may still take effect. If it fails, its sender releases the cards.
        if not bound and not self._is_busy(uid):
            self._release(uid)
        if not bound and uid in self._feed.pending:
            self._expired.add(uid)
        if not batch.members:
            del self._batches[key]

    def withdraw(self, key: GroupKey, reason: str) -> list[PodRef]:
        """Release the reservations of a group, except for Bindings in progress; return the pods of these reservations.

        Args:
            key: the group.
            reason: the reason to report to the waiting pods.
        """
        batch = self._batches.pop(key, None)
        if batch is None:
            return []
        self._changes += 1
        batch.withdrawn = reason
        self._expired &= self._feed.pending.keys()
        released = []
        for uid, (ref, _) in batch.members.items():
            self._where.pop(uid, None)
            self._expired.add(uid)
            if not self._is_busy(uid) and self._release(uid):
                released.append(ref)
        return released

    def list_overdue(self, now: float) -> list[tuple[GroupKey, Batch]]:
        """Return the groups whose reservations have expired."""
        return [(key, each) for key, each in self._batches.items() if now >= each.reserved_at + each.seconds]

    def pause(self, key: GroupKey, until: float, now: float) -> None:
        """Pause the reservations of a group that kube-scheduler tries, so that other pods can get the cards."""
        self._paused = {each: end for each, end in self._paused.items() if end > now}
        self._paused[key] = until

    def describe_pause(self, key: GroupKey, now: float) -> str:
        """Return why the reservations of a group are paused; empty if they are not paused."""
        left = self._paused.get(key, now) - now
        if left <= 0:
            return ""
        return f"pod group {key} waits {left:.0f} s: kube-scheduler did not place enough of its pods in time"

    def _has_expired(self, group: Group, uid: str) -> bool:
        """Return whether the reservation of a pod without a gate has expired; the next bind makes a new reservation."""
        return uid in self._expired and not group.waiting[uid].gated

    def _release(self, uid: str) -> bool:
        held = self._ledger.find_holding(uid)
        return held is not None and held.stage is ShareStage.RESERVED and self._ledger.release(uid)

    def _sum_up_hosts(self) -> dict[str, HostAmounts]:
        taken: dict[str, HostAmounts] = {}
        for batch in self._batches.values():
            for uid, (_, host) in batch.members.items():
                if (held := self._ledger.find_holding(uid)) is not None:
                    taken[held.node] = taken.get(held.node, NOTHING) + host
        return taken


def describe_missing(group: Group, state: GroupState, size: int) -> str:
    """Return the reason why pods of a group are missing; empty if enough pods exist."""
    if state.there >= size:
        return ""
    if state.refusal is not None:
        ref, refusal = state.refusal
        return f"pod group {group.key} waits: pod {ref.name} cannot be placed: {refusal}"
    others = f", and {state.kept} more have scheduling gates of other controllers" if state.kept else ""
    return f"pod group {group.key} waits: {state.there} of {size} pods exist{others}"
