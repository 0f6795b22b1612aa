"""Order in which assignments are corrected, so that the ledger never overestimates the free capacity of a card.

The ledger reads each pod separately. Between two writes, it must not allocate cards that are only moving from one pod
to another. Therefore, if a card was assigned to one pod but allocated to another pod, it remains charged to the first
pod (`MOVING`) until the other pod has been written. During this time, the ledger may overestimate the used amounts, but
never underestimates them. If the write for the other pod fails, the charge persists until a later write succeeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelkit.model.assignment import MOVING, Assignment, Share, is_equal

# Whether a pod has the whole card, its memory in bytes, and its compute in thousandths.
_Amount = tuple[bool, int, int]
_NOTHING: _Amount = (False, 0, 0)


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod with its assignment, and with the assignment that matches the devices that its kubelet reports.

    `written` is the valid part of the assignment, which the ledger counts. `rejected` is true if another part is
    invalid.
    """

    uid: str
    written: Assignment | None
    observed: Assignment
    rejected: bool = False

    @property
    def wrong(self) -> bool:
        """Whether the assignment must be rewritten."""
        return self.written is None or self.rejected or not is_equal(self.written, self.observed)


@dataclass(frozen=True, slots=True)
class Correction:
    """One write to a pod. `first` is true if it corrects the assignment, and false if it only removes `MOVING`."""

    uid: str
    assignment: Assignment
    first: bool


def plan(pods: Iterable[ObservedPod], awaited: Iterable[str], refused: Collection[str] = ()) -> list[list[Correction]]:
    """Return the writes in waves; empty if all assignments match the observed devices.

    The writes in a wave may run concurrently. A wave starts after all writes in the previous wave have completed.

    If a pod was allocated a card on which another pod still waits for its devices, the pod is not written. The other
    pod will get this pod's assigned card in exchange. Until then, the sums of the assignments are correct for each
    card.

    Pods without an assignment are written last. Until then, the ledger counts such a pod on every card. This charge
    covers the amounts that other pods use on cards that were not assigned to them. If one of the other pods cannot be
    written, the charge remains on the cards that were allocated to that pod.

    Args:
        pods: the pods whose devices the kubelet reports.
        awaited: the cards on which pods of this node wait for their assigned devices.
        refused: the UIDs of the pods that currently cannot be written.
    """
    ordered = sorted(pods, key=lambda pod: (pod.written is None, pod.uid))
    wrong = [pod for pod in ordered if pod.wrong]
    waited = set(awaited)
    later = [pod for pod in wrong if pod.written is not None and _find_entered(pod) & waited]
    if later:
        later += [pod for pod in wrong if pod.written is None]
    later += [pod for pod in wrong if pod.uid in refused and pod not in later]
    now = [pod for pod in wrong if pod not in later]
    # The ledger counts a pod without an assignment on every card until it is written.
    still = {card for pod in later if pod.written is not None for card in _find_entered(pod)}
    entered = Counter(card for pod in now for card in _find_entered(pod))
    assigned, unassigned = list[Correction](), list[Correction]()
    moving = {
        pod.uid: pod.observed
        for pod in ordered
        if pod not in wrong and pod.written and MOVING in pod.written.containers
    }
    for pod in now:
        by_others = entered - Counter(_find_entered(pod)) if pod.written is not None else ()
        staying = tuple(_find_left(pod, still.union(by_others)))
        if pod.written is None and len(staying) > 1:
            # An assignment cannot exceed the pod's request, and the charge of a pod without an assignment is larger.
            continue
        assignment = pod.observed
        if staying:
            moving[pod.uid] = pod.observed
            assignment = _add_moving(pod.observed, staying)
        (unassigned if pod.written is None else assigned).append(Correction(pod.uid, assignment, first=True))
    kept = _find_moving(ordered, [*assigned, *unassigned])
    rest = [
        Correction(uid, observed, first=False)
        for uid, observed in moving.items()
        if uid not in refused and not {share.card for share in kept[uid]} & still
    ]
    return [wave for wave in (assigned, unassigned, rest) if wave]


def _find_moving(ordered: Sequence[ObservedPod], writes: Sequence[Correction]) -> Mapping[str, tuple[Share, ...]]:
    found = {pod.uid: pod.written.containers.get(MOVING, ()) for pod in ordered if pod.written is not None}
    return {**found, **{write.uid: write.assignment.containers.get(MOVING, ()) for write in writes}}


def _add_moving(assignment: Assignment, staying: tuple[Share, ...]) -> Assignment:
    return Assignment({**assignment.containers, MOVING: staying}, broken=assignment.broken)


def _find_entered(pod: ObservedPod) -> set[str]:
    """Return the cards on which the pod has more than its assignment specifies."""
    was = _sum_amounts(pod.written)
    return {card for card, amount in _sum_amounts(pod.observed).items() if amount > was.get(card, _NOTHING)}


def _find_left(pod: ObservedPod, cards: Collection[str]) -> Iterator[Share]:
    """Yield the amounts on these cards that the ledger counts for the pod, but that are not allocated to the pod."""
    now = _sum_amounts(pod.observed)
    for card, (whole, memory_bytes, compute) in sorted(_sum_counted(pod, cards).items()):
        still_whole, still_bytes, still_compute = now.get(card, _NOTHING)
        rest = max(0, memory_bytes - still_bytes), max(0, compute - still_compute)
        if card in cards and (any(rest) or whole > still_whole):
            yield Share(card, *rest, whole=whole > still_whole)


def _sum_counted(pod: ObservedPod, cards: Collection[str]) -> Mapping[str, _Amount]:
    if pod.written is not None:
        return _sum_amounts(pod.written)
    held = _sum_amounts(pod.observed).values()
    total = any(whole for whole, _, _ in held), sum(memory for _, memory, _ in held), sum(part for _, _, part in held)
    return dict.fromkeys(cards, total)


def _sum_amounts(assignment: Assignment | None) -> dict[str, _Amount]:
    amounts: dict[str, _Amount] = {}
    for name, shares in assignment.containers.items() if assignment else ():
        if name != MOVING:
            for share in shares:
                whole, memory_bytes, compute = amounts.get(share.card, _NOTHING)
                amounts[share.card] = (
                    whole or share.whole,
                    memory_bytes + share.memory_bytes,
                    compute + share.compute,
                )
    return amounts
