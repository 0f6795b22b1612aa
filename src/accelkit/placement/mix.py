"""Learns what pods ask for, from those that come: the mix of tasks that what is left free should serve.

A task type is what decides where a pod goes: cards, the amount on each, and what it takes of its host. The mix forgets
by half every so many pods, so that it follows what users do now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate, islice
from math import log
from typing import Final

import msgspec

from accelkit.model.host_amounts import HostAmounts
from accelkit.model.request import PodRequest

# Pods after which an observation counts half.
_HALF_LIFE: Final = 20_000
# The mix is taken anew after so many pods; what was computed with it is thrown away then.
_EPOCH: Final = 1500
# Each type costs time at every decision; rarer ones are counted with the one that is most like them.
_MOST_TYPES: Final = 32
# Of these, so many at most are there for their cards, so that the frequent ones have room too.
_MOST_SIZES: Final = _MOST_TYPES * 2 // 3
_MOST_REMEMBERED: Final = 4096
# From so many cards on a task takes half of most nodes, or more.
_MANY_CARDS: Final = 4
# Of the tasks of one such size, so many need no more of their host than the one that stands for them.
_NEARLY_ALL: Final = 0.95


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


def describe_task(request: PodRequest, host: HostAmounts) -> TaskType:
    """Return what a pod takes of a node; of several containers the one that asks for most stands for all."""
    largest = max(request.containers, key=lambda each: (each.whole, each.cards * each.memory_bytes, each.cards))
    share = 0 if largest.whole else max(1, largest.memory_bytes)
    return TaskType(largest.cards, share, int(host.cpu_milli), int(host.memory_bytes))


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
        self._types: list[tuple[TaskType, float]] = []

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

    def list_types(self) -> list[tuple[TaskType, float]]:
        """Return the types that stand for all, and their parts of all, as of the beginning of this epoch."""
        return self._types

    def _take(self) -> None:
        self.epoch += 1
        self._next = self._seen + min(self._seen, _EPOCH)
        order = sorted(self._counts, key=lambda task: (-self._counts[task], msgspec.structs.astuple(task)))
        for task in order[_MOST_REMEMBERED:]:
            del self._counts[task]
        total = sum(self._counts.values())
        self._counts = {task: count / total for task, count in self._counts.items()}
        self._one /= total
        self._types = _merge(self._counts, order[:_MOST_REMEMBERED])


def _merge(counts: Mapping[TaskType, float], order: Sequence[TaskType]) -> list[tuple[TaskType, float]]:
    """Let a few types stand for all.

    Args:
        counts: of all types.
        order: the same types, the most frequent first.
    """
    sizes: dict[tuple[int, int], list[TaskType]] = {}
    for task in order:
        sizes.setdefault((task.cards, task.memory_bytes), []).append(task)
    first = (_choose_for_size(tasks, counts) for tasks in islice(sizes.values(), _MOST_SIZES))
    kept = dict.fromkeys(first, 0.0)
    kept |= dict.fromkeys(islice((task for task in order if task not in kept), _MOST_TYPES - len(kept)), 0.0)
    for task in order:
        kept[task if task in kept else min(kept, key=partial(_measure_distance, task))] += counts[task]
    return list(kept.items())


def _choose_for_size(tasks: Sequence[TaskType], counts: Mapping[TaskType, float]) -> TaskType:
    """Return which of the tasks that ask for the same cards stands for them: with few cards, the most frequent one.

    With many, one that needs as much of its host as nearly all of them do at most: only an empty node will do for them,
    and one that is kept for it does for the others. Those that need still more are too rare to go by.
    """
    if tasks[0].cards < _MANY_CARDS:
        return tasks[0]
    ascending = sorted(tasks, key=lambda task: (task.cpu_milli, task.host_bytes))
    enough = _NEARLY_ALL * sum(counts[task] for task in tasks)
    reached = accumulate(counts[task] for task in ascending)
    return next(task for task, sum_of in zip(ascending, reached, strict=True) if sum_of >= enough)


def _measure_distance(one: TaskType, other: TaskType) -> tuple[float, float]:
    cards = abs(log((one.cards + 1) / (other.cards + 1))) + abs(log((one.memory_bytes + 1) / (other.memory_bytes + 1)))
    host = abs(log((one.cpu_milli + 1) / (other.cpu_milli + 1))) + abs(
        log((one.host_bytes + 1) / (other.host_bytes + 1))
    )
    return cards, host
