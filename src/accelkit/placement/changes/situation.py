"""Input of a search for changes on a node: its cards, and the pods that hold them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind
from accelkit.placement.card_state import CardState
from accelkit.placement.charges import Charge
from accelkit.placement.misfit import MisfitReason

# The charges of a pod by the position of each card on its node; None if the charges of the pod are unknown.
PlacedCharges = tuple[tuple[int, Charge], ...] | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that holds cards on the node.

    Attributes:
        charges: its charge on each card; pods with equal charges are interchangeable. None if unknown.
        memory_bytes: its memory on all cards together.
    """

    pod: PodRef
    charges: PlacedCharges
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Situation:
    """One node.

    Attributes:
        states: its cards.
        holders: the pods that hold some of them.
        leave_out: returns the cards as they would be without the pods with these UIDs.
    """

    states: Sequence[CardState]
    holders: Sequence[Holder]
    leave_out: Callable[[Collection[str]], Sequence[CardState]]


@dataclass(frozen=True, slots=True)
class Terms:
    """Permitted changes to a request.

    Attributes:
        memory_steps: steps in bytes by which memory can be reduced; the first one that divides the amount is used,
            otherwise one byte.
        fixed: constraints that the author of the pod cannot leave out.
    """

    memory_steps: tuple[int, ...] = ()
    fixed: frozenset[str] = frozenset()


# These rules do not exclude a card permanently, because the pods on it may end.
_PASSING: Final = (None, MisfitReason.APART)


def list_suiting(states: Sequence[CardState], container: ContainerRequest) -> list[CardState]:
    """Return the cards that a container could use if enough of them were free."""
    return [
        state
        for state in states
        if state.card.placeable
        and container.model in ("", state.card.model)
        and state.card.number not in container.denied
        and (not container.allowed or state.card.number in container.allowed)
        and state.find_bar(container) in _PASSING
    ]


def bound_lack(states: Sequence[CardState], containers: Sequence[ContainerRequest]) -> int:
    """Return a lower bound on the bytes that other pods would have to free; it is small if changes are small.

    Init containers are left out, because later containers get their memory.
    """
    lack = 0
    for container in containers:
        suiting = [] if container.kind is Kind.INIT else list_suiting(states, container)
        if container.whole:
            lacks = [0 if each.empty else max(0, each.card.capacity_bytes - each.free_bytes) for each in suiting]
        else:
            lacks = [max(0, container.memory_bytes - each.room_bytes) for each in suiting]
        lack += sum(sorted(lacks)[: container.cards])
    return lack
