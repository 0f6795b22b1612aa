"""The assigned cards of a pod, in the format that the annotations of other systems require."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelkit.errors import AssignmentError
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import Card
from accelkit.texts import shorten
from accelkit.vendors.card_numbers import parse_number


def read_same_card(key: str, text: str, containers: Sequence[str]) -> dict[str, Sequence[int]]:
    """Return the number of the pod's only card from the annotation `key`, for each of these containers.

    Raises:
        AssignmentError: the annotation is not a number.
    """
    if (number := parse_number(text)) is None:
        raise AssignmentError(f"annotation {key} is not a number: {shorten(text)!r}")
    return dict.fromkeys(containers, (number,))


@dataclass(frozen=True, slots=True)
class Granted:
    """A pod's assignment and the cards of its node.

    Attributes:
        assignment: the shares of the pod.
        containers: the names of its app containers, in order.
        cards: the node's cards by ID.
        unit_bytes: the node's memory unit.
    """

    assignment: Assignment
    containers: Sequence[str]
    cards: Mapping[str, Card]
    unit_bytes: int

    def find_shares(self, container: str) -> Sequence[Share]:
        """Return the shares of one container."""
        return self.assignment.containers.get(container, ())

    def find_card_number(self, card: str) -> int:
        """Return the number that other systems use to identify a card.

        Raises:
            AssignmentError: the card has no number.
        """
        found = self.cards.get(card)
        if found is None or found.number is None:
            raise AssignmentError(f"card {card} has no number, which the annotations of other systems require")
        return found.number

    def count_units(self, *shares: Share) -> int:
        """Return the total memory of shares, in units."""
        return sum(share.memory_bytes for share in shares) // self.unit_bytes

    def list_memory_shares(self) -> Mapping[str, Sequence[Share]]:
        """Return the memory shares by container. Whole cards and `MOVING` are omitted."""
        found = {
            name: [share for share in shares if not share.whole]
            for name, shares in self.assignment.containers.items()
            if name != MOVING
        }
        return {name: shares for name, shares in found.items() if shares}
