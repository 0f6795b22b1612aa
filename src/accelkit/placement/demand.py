"""Tells early that containers cannot all fit what cards have left, whatever the arrangement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from accelkit.model.request import ContainerRequest, Kind

# An amount, how many containers want so much or more on each of their cards, and on how many cards together.
_Level: TypeAlias = tuple[int, int, int]

# Where more amounts differ, some are left out.
_MAX_LEVELS: Final = 8


@dataclass(frozen=True, slots=True)
class Demand:
    """What containers want of one resource.

    Only containers that keep what they get are counted: what init containers hold, others get after them.
    """

    levels: tuple[_Level, ...]
    total: int

    def exceeds(self, room: Sequence[int]) -> bool:
        """Whether this is more than cards have left, each so much; False says nothing."""
        return self.total > sum(room) or any(
            sum(min(left // amount, containers) for left in room) < cards for amount, containers, cards in self.levels
        )


@lru_cache(maxsize=64)
def list_demands(containers: tuple[ContainerRequest, ...]) -> list[tuple[Demand, Demand]]:
    """Return, for each container, what it and those after it want of memory and of compute."""
    rests = [containers[depth:] for depth in range(len(containers))]
    return [(_sum_up(rest, "memory_bytes"), _sum_up(rest, "compute")) for rest in rests]


def _sum_up(containers: Iterable[ContainerRequest], resource: str) -> Demand:
    wanted = [
        (amount, container.cards)
        for container in containers
        if container.kind is not Kind.INIT and not container.whole and (amount := getattr(container, resource)) > 0
    ]
    levels = []
    amounts = sorted({amount for amount, _ in wanted}, reverse=True)
    for level in amounts[:: 1 + len(amounts) // _MAX_LEVELS]:
        cards = [count for amount, count in wanted if amount >= level]
        levels.append((level, len(cards), sum(cards)))
    return Demand(tuple(levels), sum(amount * count for amount, count in wanted))
