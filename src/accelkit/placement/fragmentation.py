"""Measures how much of what is free can serve the tasks that come, and what a placement takes of that.

For each type of task, a node's usable cards are those parts of its free cards that such tasks could fill, as far as
the host's CPU and memory carry them. A node is worth the sum over the types, weighted by how often they come, how
little they ask for, and how scarce it is what they could use. The node that loses least gets the pod: so remnants that
nothing fits, and cards without CPU beside them, are made last.

The idea of descending the gradient of fragmentation is from Weng et al., "Beware of Fragmentation" (USENIX ATC '23);
how much is usable, and the weights, are this project's own (docs/simulation.md has what that brings).
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

# How much the usable parts count that whole tasks fill, beside all that is free on cards that one more task fits.
_FILLED: Final = 0.45
# A type's weight falls with what it asks for, by this power of its cards.
_BY_DEMAND: Final = 1.07
# Tasks of several cards are rare, and what they need is the first to go.
_SEVERAL: Final = 4.0
# A type of which the cluster has little left counts more, down to this part of all cards.
_LEAST_SUPPLY: Final = 1e-3
_LEAST_DEMAND: Final = 1e-3
# What decides between equals: the node that is left with least of everything.
_BEST_FIT: Final = 6e-4
# A host that carries a task exactly may carry a little less in single precision.
_ROUNDING: Final = 1e-5


class Columns(NamedTuple):
    """Nodes as columns of numbers, one row for each.

    Attributes:
        free: bytes by row and card, the freest first; -1 where there is no card.
        capacity: bytes of the same cards.
        empty: whether nobody holds any of the card.
        cpu: thousandths of the host's CPU that are free; infinite where unknown.
        host_bytes: of the host's memory; the same.
    """

    free: Ints
    capacity: Ints
    empty: Flags
    cpu: Doubles
    host_bytes: Doubles

    def take(self, rows: Ints | slice) -> Columns:
        """Return these rows alone."""
        free, capacity, empty, cpu, host_bytes = self
        return Columns(free[rows], capacity[rows], empty[rows], cpu[rows], host_bytes[rows])


class _Levels(NamedTuple):
    """What cards are to each amount that some type asks for: float32 by amount, (card,) and row.

    Rows come last, here and below: there are many, so each step is one long loop.
    """

    cards: Floats  # with room for one task
    tasks: Floats  # that fit one after the other
    filled: Floats  # cards' worth of those tasks
    free: Floats  # cards' worth of all that is free where one task fits

    def sum_cards(self) -> _Levels:
        return _Levels(*(each.sum(axis=1, dtype=np.float32) for each in self))


class _Types:
    """A mix as columns of numbers, one for each type."""

    def __init__(self, mix: Sequence[tuple[TaskType, float]]) -> None:
        amounts = sorted({task.memory_bytes for task, _ in mix})
        sizes = sorted({(task.memory_bytes, task.cards) for task, _ in mix})
        self.amounts = np.array(amounts, dtype=np.float64)
        self.part = np.array([part for _, part in mix])
        self.cards = np.array([task.cards for task, _ in mix], dtype=np.float64)
        self.amount = np.array([task.memory_bytes for task, _ in mix], dtype=np.float64)
        # Types that differ in their hosts only are of one size.
        self._size = np.array([sizes.index((task.memory_bytes, task.cards)) for task, _ in mix], dtype=np.int64)
        self._level = np.array([amounts.index(amount) for amount, _ in sizes], dtype=np.int64)
        self._needed = np.array([cards for _, cards in sizes], dtype=np.float32)
        self._by_cpu = _invert([task.cpu_milli for task, _ in mix])
        self._by_host = _invert([task.host_bytes for task, _ in mix])

    def count_levels(self, free: Ints, capacity: Ints, empty: Flags) -> _Levels:
        """Return what cards are to each amount; all arguments by (card and) row."""
        share = np.maximum(self.amounts, 1.0).reshape(-1, *(1 for _ in free.shape))
        left = np.maximum(free, 0).astype(np.float64)
        # Exact, since bytes of a card and their quotients are far from what a double cannot tell apart.
        tasks = np.floor(left / share).astype(np.float32)
        cards = (tasks > 0).astype(np.float32)
        size = np.maximum(capacity, 1).astype(np.float32)
        filled = tasks * (share.astype(np.float32) / size)
        rest = cards * (left.astype(np.float32) / size)
        if len(share) and not self.amounts[0]:
            # Amount 0 are whole cards: each serves one task, and serves it wholly.
            for each in (tasks, cards, filled, rest):
                each[0] = empty
        return _Levels(cards, tasks, filled, rest)

    def measure(self, levels: _Levels, cpu: Doubles, host: Doubles) -> Floats:
        """Return what each row has for each type, in cards, by row and type."""
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
        # From here on by type: how many tasks the host carries, and so which part of those that the cards take.
        carried: Floats = self._by_cpu[:, None] * cpu.astype(np.float32)
        np.minimum(carried, self._by_host[:, None] * host.astype(np.float32), out=carried)
        usable: Floats = carried / tasks[self._size]
        np.minimum(usable, np.float32(1.0), out=usable)
        usable *= filled[self._size]
        usable += free[self._size]
        usable *= carried >= 1 - _ROUNDING
        return usable.T.copy()


class Usability:
    """What each node's free cards are worth to a mix of tasks, kept for the rows that do not change."""

    def __init__(self) -> None:
        self._types = _Types(())
        self._weights: Floats = np.zeros(0, dtype=np.float32)
        self._levels = _Levels(*(np.zeros((0, 0), dtype=np.float32) for _ in range(4)))
        self._worth: Floats = np.zeros(0, dtype=np.float32)
        self._largest = [1.0, 1.0]

    def learn(self, mix: Sequence[tuple[TaskType, float]], columns: Columns) -> None:
        """Take a new mix, and measure every row."""
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
        """Measure rows again; there may be new ones among them.

        Args:
            rows: their numbers.
            columns: these rows alone.
        """
        if len(rows) and (most := int(rows.max()) + 1) > len(self._worth):
            self._grow(max(most, 2 * len(self._worth)) - len(self._worth))
        levels = self._types.count_levels(*_list_by_card(columns)).sum_cards()
        for kept, new in zip(self._levels, levels, strict=True):
            kept[:, rows] = new
        self._worth[rows] = self._types.measure(levels, columns.cpu, columns.host_bytes) @ self._weights

    def measure_losses(self, task: TaskType, rows: Ints, columns: Columns) -> Doubles:
        """Return what each row loses by a task that fits it, in weighted cards; the least is the best.

        Its cards are taken to be the tightest that fit, as the search within a node takes them.

        Args:
            task: the task.
            rows: numbers of rows that were measured since they changed.
            columns: these rows alone.
        """
        cpu, host = columns.cpu - task.cpu_milli, columns.host_bytes - task.host_bytes
        levels = [each.take(rows, axis=1) for each in self._levels]
        index, taken = np.arange(len(rows)), np.zeros(len(rows))
        for place in _find_tightest(columns, task):
            free, capacity = columns.free[index, place], columns.capacity[index, place]
            before = self._types.count_levels(free, capacity, columns.empty[index, place])
            left = np.zeros_like(free) if task.whole else free - task.memory_bytes
            if not task.whole:
                # Of a whole card nothing is left.
                after = self._types.count_levels(left, capacity, np.zeros(len(rows), dtype=np.bool_))
                levels = [level + new for level, new in zip(levels, after, strict=True)]
            levels = [level - old for level, old in zip(levels, before, strict=True)]
            taken += (free - left) / np.maximum(capacity, 1)
        worth = self._types.measure(_Levels(*levels), cpu, host) @ self._weights
        # How much of everything is left, each as a part of what the largest node has.
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
    """Return free bytes, capacity and emptiness by card and row."""
    free, capacity = (np.ascontiguousarray(each.T) for each in (columns.free, columns.capacity))
    return free, capacity, np.ascontiguousarray(columns.empty.T)


def _invert(amounts: Sequence[int]) -> Floats:
    return np.array([1 / max(amount, 1) for amount in amounts], dtype=np.float32)


def _find_tightest(columns: Columns, task: TaskType) -> list[Ints]:
    """Return, for each row, where the cards are that a task takes; the freest come first, so these are the last."""
    if not task.cards:
        return []
    fits = columns.empty if task.whole else columns.free >= max(1, task.memory_bytes)
    return _last_places(fits, task.cards)


def _last_places(fits: Flags, count: int) -> list[Ints]:
    """Return, for each row, where the last `count` cards that fit are."""
    remaining, found = fits.copy(), []
    index = np.arange(len(fits))
    for _ in range(count):
        place = fits.shape[1] - 1 - np.argmax(remaining[:, ::-1], axis=1)
        found.append(place)
        remaining[index, place] = False
    return found
