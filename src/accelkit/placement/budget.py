"""Limits on the work of a search, in steps. One step tries one card for one container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from accelkit.model.request import ContainerRequest

# Real pods need a few dozen steps; a request that needs more than this is pathological. The limit grows with the number
# of steps of a direct search, not with the number of arrangements.
_LEAST_STEPS: Final = 1000


@dataclass(slots=True)
class Budget:
    """Steps that one call may spend on all nodes together.

    Attributes:
        steps: the number of steps that are left.
    """

    steps: int

    @contextmanager
    def lend(self, most: int) -> Iterator[Budget]:
        """Yield a budget of at most `most` of the remaining steps, and subtract the steps that it spends."""
        lent = Budget(min(most, self.steps))
        given = lent.steps
        try:
            yield lent
        finally:
            self.steps -= given - lent.steps

    def is_spent(self) -> bool:
        """Return whether no steps are left; if so, a search that found nothing has no result for its node."""
        return self.steps <= 0


def limit_steps(cards: int, containers: Iterable[ContainerRequest]) -> int:
    """Return how many steps a search for these containers may take on a node with this number of cards."""
    return _LEAST_STEPS + cards + 2 * sum(container.cards for container in containers)
