"""What of a node a search for changes looks at: its cards, and the pods that hold them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind
from accelkit.placement.card_state import CardState
from accelkit.placement.charges import Charge
from accelkit.placement.misfit import MisfitReason

# What a pod costs each card, by the card's place on its node; None for a pod of which that is not known.
PlacedCharges = tuple[tuple[int, Charge], ...] | None


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that holds cards of the node.

    Attributes:
        charges: what it costs which card; pods with the same are interchangeable. None where that is not known.
        memory_bytes: what it costs all of them.
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
        leave_out: returns the cards as they would be without the pods of these UIDs.
    """

    states: Sequence[CardState]
    holders: Sequence[Holder]
    leave_out: Callable[[Collection[str]], Sequence[CardState]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What of a request can be changed, and how finely.

    Attributes:
        memory_steps: bytes by which memory can be less; the first that divides an amount counts, else single bytes.
        fixed: constraints that its writer cannot leave out.
    """

    memory_steps: tuple[int, ...] = ()
    fixed: frozenset[str] = frozenset()


# Who is on a card may end.
_PASSING: Final = (None, MisfitReason.APART)


def list_suiting(states: Sequence[CardState], container: ContainerRequest) -> list[CardState]:
    """Return the cards that would do for a container, were enough of them free."""
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
    """Return how many bytes others would have to free at least; where it is little, changes are small.

    What init containers take others get after them, so it is left out.
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
