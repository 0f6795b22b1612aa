"""Bounds the work of a search, in steps: one step tries one card for one container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from accelkit.model.request import ContainerRequest

# Real pods need a few dozen steps; a request that needs more than this is a puzzle. The bound grows with what a
# straight search takes, not with the number of arrangements.
_LEAST_STEPS: Final = 1000


@dataclass(slots=True)
class Budget:
    """What one call may spend on all nodes together.

    Attributes:
        steps: what is left.
    """

    steps: int

    @contextmanager
    def lend(self, most: int) -> Iterator[Budget]:
        """Yield a budget of at most so many of the steps that are left; what is spent of it is taken off here."""
        lent = Budget(min(most, self.steps))
        given = lent.steps
        try:
            yield lent
        finally:
            self.steps -= given - lent.steps

    def is_spent(self) -> bool:
        """Return whether nothing is left: then a search that found nothing says nothing about its node."""
        return self.steps <= 0


def limit_steps(cards: int, containers: Iterable[ContainerRequest]) -> int:
    """Return how many steps a search for these containers may take on a node of so many cards."""
    return _LEAST_STEPS + cards + 2 * sum(container.cards for container in containers)
