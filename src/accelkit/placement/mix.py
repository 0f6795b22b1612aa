"""Mix of the task types that users request. Placement preserves free amounts for these tasks.

A task type consists of the number of cards, the amount on each card, and the amounts of the host. The weight of an
observation is halved after a fixed number of pods, so that the mix follows the current usage.
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

# The number of pods after which the weight of an observation is halved.
_HALF_LIFE: Final = 20_000
# The number of pods after which the mix is recomputed, and all results that depend on the mix are discarded.
_EPOCH: Final = 1500
# The maximum number of types. It is limited because each type increases the time of every decision. A rare type is
# counted as the most similar type.
_MOST_TYPES: Final = 32
# The limit on the types that are selected to represent a request size, so that the other types can be selected by
# frequency.
_MOST_SIZES: Final = _MOST_TYPES * 2 // 3
_MOST_REMEMBERED: Final = 4096
# A task with at least this number of cards uses at least half of most nodes.
_MANY_CARDS: Final = 4
# The host amounts of the representative of a size cover at least this fraction of the tasks of that size.
_NEARLY_ALL: Final = 0.95


class TaskType(msgspec.Struct, frozen=True):
    """The amounts of one node that one pod uses.

    Attributes:
        cards: the number of cards; 0 for a pod without cards.
        memory_bytes: the memory on each card; 0 for whole cards.
        cpu_milli: the CPU of the host, in thousandths.
        host_bytes: the memory of the host.
    """

    cards: int
    memory_bytes: int
    cpu_milli: int = 0
    host_bytes: int = 0

    @property
    def whole(self) -> bool:
        """Whether the pod uses whole cards."""
        return self.cards > 0 and self.memory_bytes == 0


def describe_task(request: PodRequest, host: HostAmounts) -> TaskType:
    """Return the task type of a pod. The container with the largest request represents all containers."""
    largest = max(request.containers, key=lambda each: (each.whole, each.cards * each.memory_bytes, each.cards))
    share = 0 if largest.whole else max(1, largest.memory_bytes)
    return TaskType(largest.cards, share, int(host.cpu_milli), int(host.memory_bytes))


class TaskMix:
    """The frequency of each task type, weighted towards the most recent pods.

    Attributes:
        epoch: the number of times that the mix was computed; 0 before the first pod.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._counts: dict[TaskType, float] = {}
        self._growth = 0.5 ** (-1.0 / _HALF_LIFE)
        self._one = 1.0
        self._observed = 0
        self._next = 1
        self._types: list[tuple[TaskType, float]] = []

    def observe(self, task: TaskType) -> None:
        """Count a pod. Pods without cards are ignored."""
        if not task.cards:
            return
        # Slightly increase the weight of each new observation, instead of reducing the weights of all previous
        # observations.
        self._one *= self._growth
        self._counts[task] = self._counts.get(task, 0.0) + self._one
        self._observed += 1
        if self._observed >= self._next:
            self._take()

    def list_types(self) -> list[tuple[TaskType, float]]:
        """Return the representative types, with their fractions of all tasks at the start of this epoch."""
        return self._types

    def _take(self) -> None:
        self.epoch += 1
        self._next = self._observed + min(self._observed, _EPOCH)
        order = sorted(self._counts, key=lambda task: (-self._counts[task], msgspec.structs.astuple(task)))
        for task in order[_MOST_REMEMBERED:]:
            del self._counts[task]
        total = sum(self._counts.values())
        self._counts = {task: count / total for task, count in self._counts.items()}
        self._one /= total
        self._types = _merge(self._counts, order[:_MOST_REMEMBERED])


def _merge(counts: Mapping[TaskType, float], order: Sequence[TaskType]) -> list[tuple[TaskType, float]]:
    """Return a few types that represent all types, with their fractions of all tasks.

    Args:
        counts: the weighted count of each type.
        order: the same types, with the most frequent type first.
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
    """Return the representative of the tasks that request the same cards.

    For few cards, the representative is the most frequent task. For many cards, it is a task whose host amounts are at
    least as large as the amounts of nearly all other tasks. Tasks with many cards require an empty node, and a node
    that fits the representative also fits nearly all of these tasks.
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
