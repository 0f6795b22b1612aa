"""Reservations for groups, until they are bound or withdrawn. No I/O, and the caller provides the time."""

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
    f"its node selector, required node affinity and tolerations are more than {MOST_REQUIREMENTS} requirements, "
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
        seconds: how long the reservations last from then on.
        members: members that hold cards and are not bound yet, with their host requests, by UID.
        gated: whether accelkit's gate held some of them back, so that all are placed before kube-scheduler tries the
            first one.
        arrived: without a gate, the members that kube-scheduler has placed since the reservation.
        opened: whether enough members have arrived to bind all of them.
        withdrawn: why the reservations were withdrawn; empty while they exist.
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
        there: number of pods that can be placed or are already placed.
        settled: number of pods that need no more cards because they are bound, have a reservation, or request none.
        held: number of settled pods that hold reserved cards and are not bound.
        kept: number of pods with gates of other controllers.
        lacking: pods that do not hold cards yet.
        liftable: pods whose gate waits only for the rest of the group.
        refusal: a pod whose request cannot be granted, with the reason; None if there is none.
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
        feed: provides the requests of pods that wait.
        reserver: finds the cards.
        seconds: how long the reservations of a group last.
        gather_seconds: how long the reservations last until kube-scheduler has placed enough members without gates.
        is_busy: returns whether a Binding of a pod is in progress, or its outcome is unknown.
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
        # Groups whose members did not all reach bind in time, with the time until which no cards are reserved for them.
        self._paused: dict[GroupKey, float] = {}
        # Pods whose reservation ended before they were bound.
        self._expired: set[str] = set()
        # Number of changes to the members of batches, and the cached states.
        self._changes = 0
        self._judged: dict[GroupKey, tuple[Group, tuple[object, ...], GroupState]] = {}

    def find(self, key: GroupKey) -> Batch | None:
        """Return the reservations of a group; None if it has none."""
        return self._batches.get(key)

    def find_of(self, uid: str) -> GroupKey | None:
        """Return the group for which a pod's cards are reserved; None if no group has reserved them."""
        return self._where.get(uid)

    def has_tried_enough(self, namespace: str, now: float) -> bool:
        """Return whether too many pods of a namespace failed to fit recently, so that its groups are not tried now."""
        return self._patience.is_lost(namespace, now)

    def list_keys(self) -> list[GroupKey]:
        """Return the groups with reservations."""
        return list(self._batches)

    def list_uids(self) -> list[str]:
        """Return the pods with reservations."""
        return list(self._where)

    def find_node(self, uid: str) -> str:
        """Return the node that holds cards for a pod; empty if none does."""
        held = self._ledger.find_holding(uid)
        return "" if held is None else held.node

    def has_cards(self, uid: str) -> bool:
        """Return whether a pod has reserved or bound cards; claimed cards do not count."""
        held = self._ledger.find_holding(uid)
        return held is not None and held.stage is not ShareStage.CLAIMED

    def judge(self, group: Group) -> GroupState:
        """Return the state of a group, cached because many callers need it before anything changes."""
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
        """Reserve cards for all pods of a group that hold none, or for none of them; return why not, or an empty text.

        Args:
            group: the group.
            size: the number of pods that must be settled afterwards.
            now: the time.
            uid: a pod that is being bound to one specific node; empty if there is none.
            node: the node to which it is being bound.
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
            return f"pod group {group.key} waits: too many pods of namespace {namespace} did not fit just now"
        for each in pinned:
            # A rejected Binding has released its cards, and the pod may since have joined another group.
            self.leave(each.ref.uid, group.key)
        done = self._reserver.reserve(pinned, max(1, least), self._sum_up_hosts())
        if isinstance(done, Shortage):
            self._patience.note(namespace, len(pinned), now)
            unjudged = ", whose node rules are too many to check on all nodes" if done.unjudged else ""
            return (
                f"pod group {group.key} does not fit as a whole: room for {state.settled + done.fitted} of {size} "
                f"pods, and not for {done.first.name}{unjudged}"
            )
        self._changes += 1
        # A later member does not extend the time. Otherwise, the creator of a group could keep its cards indefinitely.
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
        """Allow the bind of all members of a batch, because kube-scheduler has placed enough of them."""
        batch.opened = True
        batch.seconds = self._seconds

    def leave(self, uid: str, key: GroupKey) -> None:
        """Record that a pod now belongs to this group, and release its reservation with any other group."""
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
        # A Binding in progress may still take effect; its sender releases the cards if it fails.
        if not bound and not self._is_busy(uid):
            self._release(uid)
        if not bound and uid in self._feed.pending:
            self._expired.add(uid)
        if not batch.members:
            del self._batches[key]

    def withdraw(self, key: GroupKey, reason: str) -> list[PodRef]:
        """Release the reservations of a group whose Bindings are not in progress; return their pods.

        Args:
            key: the group.
            reason: the reason that waiting pods get.
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
        """Return the groups whose reservations end now."""
        return [(key, each) for key, each in self._batches.items() if now >= each.reserved_at + each.seconds]

    def pause(self, key: GroupKey, until: float, now: float) -> None:
        """Pause reservations for members that are being bound, so that other pods get a turn."""
        self._paused = {each: end for each, end in self._paused.items() if end > now}
        self._paused[key] = until

    def describe_pause(self, key: GroupKey, now: float) -> str:
        """Return why nothing is reserved for a group now; empty if the group is not paused."""
        left = self._paused.get(key, now) - now
        if left <= 0:
            return ""
        return f"pod group {key} waits {left:.0f} s: kube-scheduler did not place enough of its pods in time"

    def _has_expired(self, group: Group, uid: str) -> bool:
        """Return whether a pod without a gate has used up its reservation; its next one is made when it is bound."""
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
    """Return which pods a group waits for; empty if all exist."""
    if state.there >= size:
        return ""
    if state.refusal is not None:
        ref, refusal = state.refusal
        return f"pod group {group.key} waits: pod {ref.name} has a request that cannot be granted: {refusal}"
    others = f", and {state.kept} more under scheduling gates of other controllers" if state.kept else ""
    return f"pod group {group.key} waits: {state.there} of {size} pods exist{others}"
