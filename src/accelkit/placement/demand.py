"""Early detection of containers that cannot fit into the free amounts of the cards in any arrangement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from accelkit.model.request import ContainerRequest, Kind

# An amount, the number of containers that request at least this amount on each card, and their total number of cards.
_Level: TypeAlias = tuple[int, int, int]

# If there are more distinct amounts, some are left out.
_MAX_LEVELS: Final = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """Amount of one resource that containers request.

    Only containers that keep their devices are counted, because init containers pass theirs on.
    """

    levels: tuple[_Level, ...]
    total: int

    def exceeds(self, room: Sequence[int]) -> bool:
        """Return whether the demand exceeds the room on all cards; False does not mean that it fits."""
        return self.total > sum(room) or any(
            sum(min(left // amount, containers) for left in room) < cards for amount, containers, cards in self.levels
        )


@lru_cache(maxsize=64)
def list_demands(containers: tuple[ContainerRequest, ...]) -> list[tuple[Demand, Demand]]:
    """Return, for each container, the demand for memory and for compute of this container and all later ones."""
    rests = [containers[depth:] for depth in range(len(containers))]
    return [(_sum_up(rest, "memory_bytes"), _sum_up(rest, "compute")) for rest in rests]


def _sum_up(containers: Iterable[ContainerRequest], resource: str) -> Demand:
    requested = [
        (amount, container.cards)
        for container in containers
        if container.kind is not Kind.INIT and not container.whole and (amount := getattr(container, resource)) > 0
    ]
    levels = []
    amounts = sorted({amount for amount, _ in requested}, reverse=True)
    for level in amounts[:: 1 + len(amounts) // _MAX_LEVELS]:
        cards = [count for amount, count in requested if amount >= level]
        levels.append((level, len(cards), sum(cards)))
    return Demand(tuple(levels), sum(amount * count for amount, count in requested))
