"""Trials that test whether a changed request fits changed cards, within a budget of steps."""

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
# A search that returns its result, and yields after each trial so that other work can run in between.
Search: TypeAlias = Generator[None, None, _T]

# The limit on the steps of one trial, which corresponds to a few milliseconds. A trial that exceeds the limit is
# stopped and has no result.
_MOST_STEPS: Final = 200
# The number of steps that each trial requires in addition to its search.
_LEAST_STEPS: Final = 2
_CARDS_PER_STEP: Final = 8


def finish(search: Search[_T]) -> _T:
    """Run all trials of a search without interruption, and return its result."""
    while True:
        try:
            next(search)
        except StopIteration as end:
            found: _T = end.value
            return found


class Probe:
    """Trials of changed requests with `fit.place`.

    Args:
        policy: the policy that ranks cards if the pod does not name one.
        budget: the total number of steps for all trials. Each trial subtracts its steps.

    Attributes:
        unsure: whether a trial was stopped or skipped because it reached its step limit.
    """

    def __init__(self, policy: AnyPolicy, budget: Budget) -> None:
        self.unsure = False
        self._policy, self._budget = policy, budget

    def is_spent(self) -> bool:
        """Return whether all steps of the budget are used."""
        return self._budget.is_spent()

    def find_cards(self, states: Sequence[CardState], request: PodRequest) -> Search[tuple[str, ...]]:
        """Return the IDs of the cards that a pod would get; empty if the pod does not fit or the result is unknown."""
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
        """Return the largest amount that fits, and its cards; None if the smallest amount does not fit.

        The search assumes that a pod that fits with an amount also fits with every smaller amount. This is not always
        true if the kubelet reuses the devices of an init container. In that case, the result fits, but may not be the
        largest.
        """
        if not amounts:
            return None
        if taken := (yield from self.find_cards(states, build(amounts[-1]))):
            return amounts[-1], taken
        best: tuple[int, tuple[str, ...]] | None = None
        low, high = 0, len(amounts) - 1
        while low < high:
            # Next, try the smallest amount, because usually either no amount fits or every amount fits.
            middle = low if best is None else (low + high) // 2
            if taken := (yield from self.find_cards(states, build(amounts[middle]))):
                best, low = (amounts[middle], taken), middle + 1
            elif best is None:
                return None
            else:
                high = middle
        return best
