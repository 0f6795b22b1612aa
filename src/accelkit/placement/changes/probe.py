"""Asks whether a changed request fits changed cards, within a budget; what is asked is counted in steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeAlias, TypeVar

from accelkit.model.assignment import Assignment
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.card_state import CardState
from accelkit.placement.fit import place
from accelkit.placement.policies import AnyPolicy

_T = TypeVar("_T")
# What is found in the end; each `next` is one question, between which others may have their turn.
Search: TypeAlias = Generator[None, None, _T]

# One question is a few milliseconds at most: what takes more is a puzzle, and counts as not found.
_MOST_STEPS: Final = 200
# What a question costs besides its search.
_LEAST_STEPS: Final = 2
_CARDS_PER_STEP: Final = 8


def finish(search: Search[_T]) -> _T:
    """Ask all questions of a search at once, and return what is found."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: _T = end.value
            return found


class Probe:
    """Asks `fit.place`.

    Args:
        policy: ranks cards where the pod does not say.
        budget: what all questions together may cost; the steps taken are taken off.

    Attributes:
        unsure: whether a question was too complex to be answered, or one more than the budget allowed was asked.
    """

    def __init__(self, policy: AnyPolicy, budget: Budget) -> None:
        self.unsure = False
        self._policy, self._budget = policy, budget

    def is_spent(self) -> bool:
        """Return whether no more may be asked."""
        return self._budget.is_spent()

    def ask(self, states: Sequence[CardState], request: PodRequest) -> Search[tuple[str, ...]]:
        """Return the IDs of the cards that a pod would get; none where it does not fit, or nobody knows."""
        if self._budget.is_spent():
            self.unsure = True
            return ()
        with self._budget.lend(_MOST_STEPS) as trial:
            placed = place(states, request, self._policy, trial)
        self._budget.steps -= _LEAST_STEPS + len(states) // _CARDS_PER_STEP
        yield
        if isinstance(placed, Assignment):
            shares = (share for each in placed.containers.values() for share in each)
            return tuple(dict.fromkeys(share.card for share in shares))
        self.unsure = self.unsure or trial.is_spent()
        return ()

    def find_most(
        self, states: Sequence[CardState], amounts: range, build: Callable[[int], PodRequest]
    ) -> Search[tuple[int, tuple[str, ...]] | None]:
        """Return the largest of these amounts that fits, and the cards; None where the smallest does not.

        What fits with some amount is taken to fit with less. Where an init container hands its devices on that does
        not always hold: then what is returned fits, but may not be the largest.
        """
        if not amounts:
            return None
        if taken := (yield from self.ask(states, build(amounts[-1]))):
            return amounts[-1], taken
        best: tuple[int, tuple[str, ...]] | None = None
        low, high = 0, len(amounts) - 1
        while low < high:
            # The smallest first: mostly nothing fits, or all of them do.
            middle = low if best is None else (low + high) // 2
            if taken := (yield from self.ask(states, build(amounts[middle]))):
                best, low = (amounts[middle], taken), middle + 1
            elif best is None:
                return None
            else:
                high = middle
        return best
