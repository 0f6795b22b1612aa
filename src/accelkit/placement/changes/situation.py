"""Input to a search for changes on a node: the cards of the node, and the pods that use the cards."""

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
class ShareHolder:
    """A pod that uses cards on the node.

    Attributes:
        charges: the charge of the pod on each card; None if unknown. Pods with equal charges are interchangeable.
        memory_bytes: the total memory of the pod on all cards.
    """

    pod: PodRef
    charges: PlacedCharges
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Situation:
    """A snapshot of a node.

    Attributes:
        states: the cards of the node.
        holders: the pods that have shares of the cards.
        leave_out: returns the cards as they would be without the pods with the given UIDs.
    """

    states: Sequence[CardState]
    holders: Sequence[ShareHolder]
    leave_out: Callable[[Collection[str]], Sequence[CardState]]


@dataclass(frozen=True, slots=True)
class Terms:
    """The permitted changes to a request.

    Attributes:
        memory_steps: the steps, in bytes, by which memory can be reduced. The first step that divides the amount is
            used; if there is no such step, one byte is used.
        fixed: the constraints that the user cannot omit.
    """

    memory_steps: tuple[int, ...] = ()
    fixed: frozenset[str] = frozenset()


# Rules that do not exclude a card permanently, because the pods on the card may terminate.
_PASSING: Final = (None, MisfitReason.APART)


def list_suiting(states: Sequence[CardState], container: ContainerRequest) -> list[CardState]:
    """Return the cards that a container could use if their amounts were free."""
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
    """Return a lower bound on the memory that other pods would have to free, in bytes.

    Init containers are not counted, because subsequent containers reuse their memory.
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
