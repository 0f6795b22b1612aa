"""Bounds what groups may take of the event loop, which is kube-scheduler's first. No I/O but to let others go on."""

from __future__ import annotations

import asyncio
from typing import Final

# One step judges one member; placing one takes far more.
_PLACING_STEPS: Final = 500
# After so many steps others come first.
_TURN_STEPS: Final = 2_000
# So many members are tried to be placed in one look at all groups, and the last group wholly.
_MOST_PLACED: Final = 100
# So many pods of a namespace are tried to be placed in vain at once, and so many a second.
MOST_IN_VAIN: Final = 200
IN_VAIN_A_SECOND: Final = 50


class Pace:
    """What one look at all groups has taken."""

    def __init__(self) -> None:
        self._placed = self._turn = 0

    @property
    def spent(self) -> bool:
        """Whether nothing more is placed in this look."""
        return self._placed >= _MOST_PLACED

    def count(self, judged: int, *, placed: int = 0) -> None:
        """Count members that were judged, and that were tried to be placed."""
        self._placed += placed
        self._turn += judged + _PLACING_STEPS * placed

    async def rest(self) -> bool:
        """Let others go on where this turn was long enough; return whether it was."""
        if self._turn < _TURN_STEPS:
            return False
        self._turn = 0
        await asyncio.sleep(0)
        return True


class Patience:
    """How many pods of each namespace were tried to be placed in vain of late."""

    def __init__(self) -> None:
        # How many, as of when.
        self._tried: dict[str, tuple[float, float]] = {}

    def is_lost(self, namespace: str, now: float) -> bool:
        """Return whether groups of a namespace are not tried now."""
        return self._measure(namespace, now) > MOST_IN_VAIN

    def note(self, namespace: str, pods: int, now: float) -> None:
        """Note that so many pods were tried to be placed together, in vain."""
        for each in [each for each in self._tried if not self._measure(each, now)]:
            del self._tried[each]
        self._tried[namespace] = self._measure(namespace, now) + pods, now

    def _measure(self, namespace: str, now: float) -> float:
        tried, since = self._tried.get(namespace, (0.0, now))
        return max(0.0, tried - IN_VAIN_A_SECOND * (now - since))
