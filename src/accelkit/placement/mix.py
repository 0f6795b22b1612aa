"""Learns what pods ask for, from those that come: the mix of tasks that what is left free should serve.

A task type is what decides where a pod goes: cards, the amount on each, and what it takes of its host. The mix forgets
by half every so many pods, so that it follows what users do now.
"""

from __future__ import annotations

from typing import Final

import msgspec

# Pods after which an observation counts half.
_HALF_LIFE: Final = 20_000
# The mix is taken anew after so many pods; what was computed with it is thrown away then.
_EPOCH: Final = 256
# Rarer types say little and cost as much as others.
_MOST_TYPES: Final = 96
_MOST_REMEMBERED: Final = 4096


class TaskType(msgspec.Struct, frozen=True):
    """What one pod takes of one node.

    Attributes:
        cards: how many cards; 0 for a pod that asks for none.
        memory_bytes: on each of them; 0 for whole cards.
        cpu_milli: thousandths of a CPU of the host.
        host_bytes: memory of the host.
    """

    cards: int
    memory_bytes: int
    cpu_milli: int = 0
    host_bytes: int = 0

    @property
    def whole(self) -> bool:
        """Whether the cards are for this pod alone."""
        return self.cards > 0 and self.memory_bytes == 0


class TaskMix:
    """How often each type came, the last ones most.

    Attributes:
        epoch: how often the mix was taken anew; 0 before the first pod.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._counts: dict[TaskType, float] = {}
        self._growth = 0.5 ** (-1.0 / _HALF_LIFE)
        self._one = 1.0
        self._seen = 0
        self._next = 1
        self._frequent: list[tuple[TaskType, float]] = []

    def observe(self, task: TaskType) -> None:
        """Count a pod that has come; those without cards need none."""
        if not task.cards:
            return
        # In place of making all others smaller, each counts a little more than the one before.
        self._one *= self._growth
        self._counts[task] = self._counts.get(task, 0.0) + self._one
        self._seen += 1
        if self._seen >= self._next:
            self._take()

    def list_frequent(self) -> list[tuple[TaskType, float]]:
        """Return the most frequent types and their parts of all, as of the beginning of this epoch."""
        return self._frequent

    def _take(self) -> None:
        self.epoch += 1
        self._next = self._seen + min(self._seen, _EPOCH)
        order = sorted(self._counts, key=lambda task: (-self._counts[task], msgspec.structs.astuple(task)))
        for task in order[_MOST_REMEMBERED:]:
            del self._counts[task]
        total = sum(self._counts.values())
        self._counts = {task: count / total for task, count in self._counts.items()}
        self._one /= total
        self._frequent = [(task, self._counts[task]) for task in order[:_MOST_TYPES]]
