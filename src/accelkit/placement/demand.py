"""Early detection of containers that do not fit the free amounts of the cards in any arrangement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from accelkit.model.request import ContainerRequest, Kind

# An amount, the number of containers that request at least this amount per card, and their total number of cards.
_Level: TypeAlias = tuple[int, int, int]

# The maximum number of distinct amounts. If there are more, some amounts are not checked.
_MAX_LEVELS: Final = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """The amounts of one resource that containers request.

    Init containers are not counted, because their devices are reused for subsequent containers.
    """

    levels: tuple[_Level, ...]
    total: int

    def exceeds(self, room: Sequence[int]) -> bool:
        """Return whether the demand exceeds the free amounts on all cards.

        False does not mean that the containers fit.
        """
        return self.total > sum(room) or any(
            sum(min(left // amount, containers) for left in room) < cards for amount, containers, cards in self.levels
        )


@lru_cache(maxsize=64)
def list_demands(containers: tuple[ContainerRequest, ...]) -> list[tuple[Demand, Demand]]:
    """Return, for each container, the demand for memory and compute of this container and all subsequent containers."""
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
