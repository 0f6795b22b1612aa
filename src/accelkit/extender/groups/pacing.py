"""Limits on the work for groups in the event loop, because requests from kube-scheduler take precedence."""

from __future__ import annotations

import asyncio
from typing import Final

# Number of steps to place one member. The state of one member is computed in one step.
_PLACING_STEPS: Final = 500
# Number of steps after which the work for groups pauses so that other tasks can run.
_TURN_STEPS: Final = 2_000
# Maximum number of members that are tried in one round over all groups. The last group is always tried completely.
_MOST_PLACED: Final = 100
# Maximum number of pods per namespace that did not fit recently, and the number by which this count decreases per
# second.
MOST_FAILED: Final = 200
FAILED_PER_SECOND: Final = 50


class Pace:
    """Limit on the work of one round over all groups."""

    def __init__(self) -> None:
        self._placed = self._turn = 0

    @property
    def spent(self) -> bool:
        """Whether the limit of members for this round is reached."""
        return self._placed >= _MOST_PLACED

    def count(self, judged: int, *, placed: int = 0) -> None:
        """Add the members whose state was checked, and the members whose placement was tried."""
        self._placed += placed
        self._turn += judged + _PLACING_STEPS * placed

    async def rest(self) -> bool:
        """Pause so that other tasks can run if this turn has used its steps; return whether it has."""
        if self._turn < _TURN_STEPS:
            return False
        self._turn = 0
        await asyncio.sleep(0)
        return True


class Patience:
    """Number of pods in each namespace that recently did not fit."""

    def __init__(self) -> None:
        # For each namespace: the number of pods, and the time of its computation.
        self._tried: dict[str, tuple[float, float]] = {}

    def is_lost(self, namespace: str, now: float) -> bool:
        """Return whether the groups of a namespace must not be tried now."""
        return self._measure(namespace, now) > MOST_FAILED

    def note(self, namespace: str, pods: int, now: float) -> None:
        """Record pods that were tried together and did not fit."""
        for each in [each for each in self._tried if not self._measure(each, now)]:
            del self._tried[each]
        self._tried[namespace] = self._measure(namespace, now) + pods, now

    def _measure(self, namespace: str, now: float) -> float:
        tried, since = self._tried.get(namespace, (0.0, now))
        return max(0.0, tried - FAILED_PER_SECOND * (now - since))
