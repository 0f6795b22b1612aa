"""Measure of the free amounts that expected tasks can use, and of the loss that a placement causes.

For each type of task, the usable amount of a node is the part of its free cards that tasks of this type could use.
Tasks are counted only if the host has enough CPU and memory. The value of a node is the sum over all types. Each type
is weighted by its frequency, by the inverse of its size, and by the scarcity of the cards that it could use. The pod is
assigned to the node that loses the least value. Therefore, a placement leaves amounts that do not fit any task, or free
cards on hosts without free CPU, only as a last resort.

Weng et al., "Beware of Fragmentation" (USENIX ATC '23), introduced fragmentation gradient descent. The usable amounts
and the weights are defined by this project. docs/how-to/simulation.md describes their effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from accelkit.placement.mix import TaskType

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# The weight of the usable amounts that whole tasks would fill. The remaining weight applies to all free memory of the
# cards on which at least one more task fits.
_FILLED: Final = 0.45
# The weight of a type is divided by the size of its request (in cards) raised to this power.
_BY_DEMAND: Final = 1.07
# The weight of tasks with several cards. It is higher because the sets of cards that they require become scarce first.
_SEVERAL: Final = 4.0
# The weight of a type is divided by its usable fraction of all cards, or by this fraction if it is larger.
_LEAST_SUPPLY: Final = 1e-3
_LEAST_DEMAND: Final = 1e-3
# The weight of the tie-breaker between equal nodes. The node with the smallest remaining amounts is the best.
_BEST_FIT: Final = 6e-4
# The tolerance of the comparison. In single precision, the amounts of a host may appear slightly smaller than a task
# that just fits.
_ROUNDING: Final = 1e-5


class Columns(NamedTuple):
    """Numeric columns with one row per node.

    Attributes:
        free: the free memory by row and card, in bytes, with the card with the most free memory first; -1 if there is
            no card.
        capacity: the capacities of the same cards in bytes.
        empty: whether no pod has a share of the card.
        cpu: the free CPU of the host, in thousandths; infinite if unknown.
        host_bytes: the free memory of the host, in bytes; infinite if unknown.
    """

    free: Ints
    capacity: Ints
    empty: Flags
    cpu: Doubles
    host_bytes: Doubles

    def take(self, rows: Ints | slice) -> Columns:
        """Return the columns of only these rows."""
        free, capacity, empty, cpu, host_bytes = self
        return Columns(free[rows], capacity[rows], empty[rows], cpu[rows], host_bytes[rows])


class _Levels(NamedTuple):
    """Measures of cards for each amount that a type requests: float32 by amount, (card,) and row.

    In all arrays, rows are the last axis, because there are many rows and each step can then be one long loop.
    """

    cards: Floats  # cards with room for one task
    tasks: Floats  # number of tasks that fit in total
    filled: Floats  # memory of these tasks, in cards
    free: Floats  # free memory of the cards with room for one task, in cards

    def sum_cards(self) -> _Levels:
        return _Levels(*(each.sum(axis=1, dtype=np.float32) for each in self))


class _Types:
    """A mix of task types as numeric columns with one entry per type."""

    def __init__(self, mix: Sequence[tuple[TaskType, float]]) -> None:
        amounts = sorted({task.memory_bytes for task, _ in mix})
        sizes = sorted({(task.memory_bytes, task.cards) for task, _ in mix})
        self.amounts = np.array(amounts, dtype=np.float64)
        self.part = np.array([part for _, part in mix])
        self.cards = np.array([task.cards for task, _ in mix], dtype=np.float64)
        self.amount = np.array([task.memory_bytes for task, _ in mix], dtype=np.float64)
        # Types that differ only in their host amounts have the same size.
        self._size = np.array([sizes.index((task.memory_bytes, task.cards)) for task, _ in mix], dtype=np.int64)
        self._level = np.array([amounts.index(amount) for amount, _ in sizes], dtype=np.int64)
        self._needed = np.array([cards for _, cards in sizes], dtype=np.float32)
        self._by_cpu = _invert([task.cpu_milli for task, _ in mix])
        self._by_host = _invert([task.host_bytes for task, _ in mix])

    def count_levels(self, free: Ints, capacity: Ints, empty: Flags) -> _Levels:
        """Return the measures of cards for each amount. All arguments are arrays by row, or by card and row."""
        share = np.maximum(self.amounts, 1.0).reshape(-1, *(1 for _ in free.shape))
        left = np.maximum(free, 0).astype(np.float64)
        # The result is exact, because the memory of a card in bytes is far below the largest exact integer in a double.
        tasks = np.floor(left / share).astype(np.float32)
        cards = (tasks > 0).astype(np.float32)
        size = np.maximum(capacity, 1).astype(np.float32)
        filled = tasks * (share.astype(np.float32) / size)
        rest = cards * (left.astype(np.float32) / size)
        if len(share) and not self.amounts[0]:
            # Amount 0 means whole cards: each card fits exactly one task, which uses the whole card.
            for each in (tasks, cards, filled, rest):
                each[0] = empty
        return _Levels(cards, tasks, filled, rest)

    def measure(self, levels: _Levels, cpu: Doubles, host: Doubles) -> Floats:
        """Return the usable amount of each row for each type, in cards, by row and type."""
        level, several, needed = self._level, self._needed > 1, self._needed[:, None]
        cards, free = levels.cards[level], levels.free[level]
        tasks, filled = levels.tasks[level], levels.filled[level]
        tasks[several], filled[several] = cards[several] / needed[several], free[several]
        np.maximum(tasks, 1e-6, out=tasks)
        fits = cards >= needed
        filled *= np.float32(_FILLED)
        filled *= fits
        free *= np.float32(1 - _FILLED)
        free *= fits
        # The following arrays are indexed by type. They contain the number of tasks that the host can run, and this
        # number as a fraction of the tasks that fit the cards.
        carried: Floats = self._by_cpu[:, None] * cpu.astype(np.float32)
        np.minimum(carried, self._by_host[:, None] * host.astype(np.float32), out=carried)
        usable: Floats = carried / tasks[self._size]
        np.minimum(usable, np.float32(1.0), out=usable)
        usable *= filled[self._size]
        usable += free[self._size]
        usable *= carried >= 1 - _ROUNDING
        return usable.T.copy()


class Usability:
    """The value of each node's free cards for a mix of tasks, which is cached until the row changes."""

    def __init__(self) -> None:
        self._types = _Types(())
        self._weights: Floats = np.zeros(0, dtype=np.float32)
        self._levels = _Levels(*(np.zeros((0, 0), dtype=np.float32) for _ in range(4)))
        self._worth: Floats = np.zeros(0, dtype=np.float32)
        self._largest = [1.0, 1.0]

    def rebuild(self, mix: Sequence[tuple[TaskType, float]], columns: Columns) -> None:
        """Set a new mix and measure every row."""
        types = self._types = _Types(mix)
        self._levels = types.count_levels(*_list_by_card(columns)).sum_cards()
        usable = types.measure(self._levels, columns.cpu, columns.host_bytes)
        sizes = columns.capacity[columns.capacity > 0]
        typical = float(sizes.mean()) if len(sizes) else 1.0
        demand = types.cards * np.where(types.amount > 0, types.amount / typical, 1.0)
        supply = usable.sum(axis=0, dtype=np.float64) / max(1, len(sizes))
        weights = types.part * np.maximum(demand, _LEAST_DEMAND) ** -_BY_DEMAND / np.maximum(supply, _LEAST_SUPPLY)
        weights *= np.where(types.cards > 1, _SEVERAL, 1.0)
        self._weights = (weights / max(weights.sum(), 1e-30)).astype(np.float32)
        self._worth = usable @ self._weights
        known = (each[np.isfinite(each)] for each in (columns.cpu, columns.host_bytes))
        self._largest = [max(1.0, float(each.max(initial=0.0))) for each in known]

    def refresh(self, rows: Ints, columns: Columns) -> None:
        """Measure rows again, and add new rows.

        Args:
            rows: the numbers of the rows.
            columns: the columns of only these rows.
        """
        if len(rows) and (most := int(rows.max()) + 1) > len(self._worth):
            self._grow(max(most, 2 * len(self._worth)) - len(self._worth))
        levels = self._types.count_levels(*_list_by_card(columns)).sum_cards()
        for kept, new in zip(self._levels, levels, strict=True):
            kept[:, rows] = new
        self._worth[rows] = self._types.measure(levels, columns.cpu, columns.host_bytes) @ self._weights

    def measure_losses(self, task: TaskType, rows: Ints, columns: Columns) -> Doubles:
        """Return the loss, in weighted cards, of each row if it gets a task that fits. The smallest loss is the best.

        It is assumed that the task gets the fitting cards with the least free memory, as in the search within a node.

        Args:
            task: the task.
            rows: the numbers of the rows, which must have been measured after their last change.
            columns: the columns of only these rows.
        """
        cpu, host = columns.cpu - task.cpu_milli, columns.host_bytes - task.host_bytes
        levels = [each.take(rows, axis=1) for each in self._levels]
        index, taken = np.arange(len(rows)), np.zeros(len(rows))
        for place in _find_tightest(columns, task):
            free, capacity = columns.free[index, place], columns.capacity[index, place]
            before = self._types.count_levels(free, capacity, columns.empty[index, place])
            left = np.zeros_like(free) if task.whole else free - task.memory_bytes
            if not task.whole:
                # A whole card has no remaining memory.
                after = self._types.count_levels(left, capacity, np.zeros(len(rows), dtype=np.bool_))
                levels = [level + new for level, new in zip(levels, after, strict=True)]
            levels = [level - old for level, old in zip(levels, before, strict=True)]
            taken += (free - left) / np.maximum(capacity, 1)
        worth = self._types.measure(_Levels(*levels), cpu, host) @ self._weights
        # The sum of all remaining amounts, each as a fraction of the largest amount on any node.
        rest: Doubles = (columns.free.clip(0) / np.maximum(columns.capacity, 1)).sum(axis=1) - taken
        rest /= columns.free.shape[1]
        for each, largest in zip((cpu, host), self._largest, strict=True):
            rest += np.minimum(each / largest, 1.0)
        losses: Doubles = (self._worth[rows] - worth).astype(np.float64) + _BEST_FIT * rest
        return losses

    def _grow(self, more: int) -> None:
        self._worth = np.concatenate([self._worth, np.zeros(more, dtype=np.float32)])
        kept = (np.pad(each, ((0, 0), (0, more))) for each in self._levels)
        self._levels = _Levels(*kept)


def _list_by_card(columns: Columns) -> tuple[Ints, Ints, Flags]:
    """Return the free bytes, the capacity and the empty flag by card and row."""
    free, capacity = (np.ascontiguousarray(each.T) for each in (columns.free, columns.capacity))
    return free, capacity, np.ascontiguousarray(columns.empty.T)


def _invert(amounts: Sequence[int]) -> Floats:
    return np.array([1 / max(amount, 1) for amount in amounts], dtype=np.float32)


def _find_tightest(columns: Columns, task: TaskType) -> list[Ints]:
    """Return, for each row, the positions of the cards for a task: the fitting cards with the least free memory."""
    if not task.cards:
        return []
    fits = columns.empty if task.whole else columns.free >= max(1, task.memory_bytes)
    return _last_places(fits, task.cards)


def _last_places(fits: Flags, count: int) -> list[Ints]:
    """Return, for each row, the positions of the last `count` cards that fit."""
    remaining, found = fits.copy(), []
    index = np.arange(len(fits))
    for _ in range(count):
        place = fits.shape[1] - 1 - np.argmax(remaining[:, ::-1], axis=1)
        found.append(place)
        remaining[index, place] = False
    return found
