"""Limits on the work of a search, in steps. In one step, the search tries one card for one container."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from accelkit.model.request import ContainerRequest

# The minimum limit on the steps of a search. Typical pods require only a few dozen steps. The limit grows with the
# number of steps of a search without backtracking, not with the number of arrangements.
_LEAST_STEPS: Final = 1000


@dataclass(slots=True)
class Budget:
    """The total number of steps that one call may use for all nodes.

    Attributes:
        steps: the number of remaining steps.
    """

    steps: int

    @contextmanager
    def lend(self, most: int) -> Iterator[Budget]:
        """Yield a budget with at most `most` of the remaining steps, and subtract the steps that are used."""
        lent = Budget(min(most, self.steps))
        given = lent.steps
        try:
            yield lent
        finally:
            self.steps -= given - lent.steps

    def is_spent(self) -> bool:
        """Return whether all steps are used. In this case, a search that found no cards was incomplete."""
        return self.steps <= 0


def limit_steps(cards: int, containers: Iterable[ContainerRequest]) -> int:
    """Return the maximum number of steps of a search for these containers on a node with this number of cards."""
    return _LEAST_STEPS + cards + 2 * sum(container.cards for container in containers)
