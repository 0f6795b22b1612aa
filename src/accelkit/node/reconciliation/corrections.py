"""Plans the order in which assignments are corrected, so that no card ever seems to have capacity it does not have.

The ledger reads each pod by itself, and between two writes it must not give away what is only changing hands. So a pod
that leaves a card for another pod to come stays charged there (`MOVING`) until that one has been written: for a moment
the ledger counts too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.node.reconciliation.observed_assignment import is_equal


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """A pod with the assignment that was written on it and the one that its kubelet shows."""

    uid: str
    written: Assignment | None
    observed: Assignment


@dataclass(frozen=True, slots=True)
class Correction:
    """One write. `first` is whether it tells something new; the others only drop what was moving."""

    uid: str
    assignment: Assignment
    first: bool


def plan(pods: Iterable[ObservedPod], awaited: Iterable[str]) -> list[Correction]:
    """Return the writes in their order; empty where every assignment is as observed.

    A pod that took a card on which another one still waits for its devices is left alone: that one will take its place,
    and until then the cards add up as they are written. A pod without an assignment is written after all others, since
    the ledger counts it on every card until then, and so covers what the others hold elsewhere than it is written.

    Args:
        pods: those whose kubelet shows their devices.
        awaited: cards on which pods of this node wait for devices that they were assigned.
    """
    ordered = sorted(pods, key=lambda pod: (pod.written is None, pod.uid))
    wrong = [pod for pod in ordered if pod.written is None or not is_equal(pod.written, pod.observed)]
    waited = set(awaited)
    later = [pod for pod in wrong if pod.written is not None and _find_entered(pod) & waited]
    if later:
        later += [pod for pod in wrong if pod.written is None]
    now = [pod for pod in wrong if pod not in later]
    writes: list[Correction] = []
    moving = {
        pod.uid: pod.observed
        for pod in ordered
        if pod not in wrong and pod.written and MOVING in pod.written.containers
    }
    for number, pod in enumerate(now):
        to_come = {card for other in (*now[number + 1 :], *later) for card in _find_entered(other)}
        staying = tuple(share for share in _find_left(pod) if share.card in to_come)
        if staying:
            moving[pod.uid] = pod.observed
            writes.append(Correction(pod.uid, _add_moving(pod.observed, staying), first=True))
        else:
            writes.append(Correction(pod.uid, pod.observed, first=True))
    still = {card for pod in later for card in _find_entered(pod)}
    kept = _find_moving(ordered, writes)
    writes += [
        Correction(uid, observed, first=False)
        for uid, observed in moving.items()
        if not {share.card for share in kept[uid]} & still
    ]
    return writes


def _find_moving(ordered: Sequence[ObservedPod], writes: Sequence[Correction]) -> Mapping[str, tuple[Share, ...]]:
    found = {pod.uid: pod.written.containers.get(MOVING, ()) for pod in ordered if pod.written is not None}
    return {**found, **{write.uid: write.assignment.containers.get(MOVING, ()) for write in writes}}


def _add_moving(assignment: Assignment, staying: tuple[Share, ...]) -> Assignment:
    return Assignment({**assignment.containers, MOVING: staying}, broken=assignment.broken)


def _find_entered(pod: ObservedPod) -> set[str]:
    """Return the cards of which the pod holds more than was written."""
    was = _sum_amounts(pod.written)
    return {card for card, amount in _sum_amounts(pod.observed).items() if amount > was.get(card, _NOTHING)}


def _find_left(pod: ObservedPod) -> list[Share]:
    """Return what was written of each card over what the pod holds."""
    now = _sum_amounts(pod.observed)
    left: list[Share] = []
    for card, (whole, memory_bytes, compute) in sorted(_sum_amounts(pod.written).items()):
        still_whole, still_bytes, still_compute = now.get(card, _NOTHING)
        rest = max(0, memory_bytes - still_bytes), max(0, compute - still_compute)
        if any(rest) or whole > still_whole:
            left.append(Share(card, *rest, whole=whole > still_whole))
    return left


# Whether a pod holds the card whole, bytes, thousandths of compute.
_Amount = tuple[bool, int, int]
_NOTHING: _Amount = (False, 0, 0)


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
