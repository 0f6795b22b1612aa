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
Ints = npt.NDArray[np.int64]

# How much the usable parts count that whole tasks fill, beside all that is free on cards that one more task fits.
_FILLED: Final = 0.45
# A type's weight falls with what it asks for, by this power of its cards.
_BY_DEMAND: Final = 1.0
# Tasks of several cards are rare, and what they need is the first to go.
_SEVERAL: Final = 4.0
# A type of which the cluster has little left counts more, down to this part of all cards.
_LEAST_SUPPLY: Final = 1e-3
# What decides between equals: the node that is left with least of everything.
_BEST_FIT: Final = 6e-4


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
    empty: npt.NDArray[np.bool_]
    cpu: npt.NDArray[np.float64]
    host_bytes: npt.NDArray[np.float64]

    def take(self, rows: Ints) -> Columns:
        """Return these rows alone."""
        return Columns(*(column[rows] for column in self))


class _Levels(NamedTuple):
    """What cards are to each amount that some type asks for: float32 by row (and card) and amount."""

    cards: Floats  # with room for one task
    tasks: Floats  # that fit one after the other
    filled: Floats  # cards' worth of those tasks
    free: Floats  # cards' worth of all that is free where one task fits

    def sum_cards(self) -> _Levels:
        return _Levels(*(each.sum(axis=1, dtype=np.float32) for each in self))


class Usability:
    """What each node's free cards are worth to a mix of tasks, kept for the rows that do not change."""

    def __init__(self) -> None:
        self._amounts: Ints = np.zeros(0, dtype=np.int64)
        self._level: Ints = np.zeros(0, dtype=np.int64)
        self._needed: Floats = np.zeros(0, dtype=np.float32)
        self._several: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._cpu: npt.NDArray[np.float64] = np.zeros(0)
        self._host: npt.NDArray[np.float64] = np.zeros(0)
        self._weights: Floats = np.zeros(0, dtype=np.float32)
        self._levels = _Levels(*(np.zeros((0, 0), dtype=np.float32) for _ in range(4)))
        self._worth: Floats = np.zeros(0, dtype=np.float32)

    def learn(self, mix: Sequence[tuple[TaskType, float]], columns: Columns) -> None:
        """Take a new mix, and measure every row."""
        types = [task for task, _ in mix]
        amounts = sorted({task.memory_bytes for task in types})
        self._amounts = np.array(amounts, dtype=np.int64)
        self._level = np.array([amounts.index(task.memory_bytes) for task in types], dtype=np.int64)
        self._needed = np.array([task.cards for task in types], dtype=np.float32)
        self._several = self._needed > 1
        self._cpu = np.array([max(task.cpu_milli, 1) for task in types], dtype=np.float64)
        self._host = np.array([max(task.host_bytes, 1) for task in types], dtype=np.float64)
        self._levels = self._count_levels(columns.free, columns.capacity, columns.empty).sum_cards()
        usable = self._measure(self._levels, columns.cpu, columns.host_bytes)
        cards = max(1.0, float((columns.free >= 0).sum()))
        typical = float(columns.capacity[columns.capacity > 0].mean()) if (columns.capacity > 0).any() else 1.0
        demand = np.array([task.cards * (task.memory_bytes / typical if task.memory_bytes else 1.0) for task in types])
        supply = np.maximum(usable.sum(axis=0, dtype=np.float64) / cards, _LEAST_SUPPLY)
        weights = np.array([part for _, part in mix]) * np.maximum(demand, 1e-3) ** -_BY_DEMAND / supply
        weights *= np.where(self._several, _SEVERAL, 1.0)
        self._weights = (weights / max(weights.sum(), 1e-30)).astype(np.float32)
        self._worth = usable @ self._weights

    def refresh(self, rows: Ints, columns: Columns) -> None:
        """Measure rows again; there may be new ones among them.

        Args:
            rows: their numbers.
            columns: these rows alone.
        """
        if len(rows) and (most := int(rows.max()) + 1) > len(self._worth):
            more = max(most, 2 * len(self._worth)) - len(self._worth)
            self._worth = np.concatenate([self._worth, np.zeros(more, dtype=np.float32)])
            widths = [each.shape[1] for each in self._levels]
            self._levels = _Levels(
                *(
                    np.concatenate([each, np.zeros((more, width), dtype=np.float32)])
                    for each, width in zip(self._levels, widths, strict=True)
                )
            )
        levels = self._count_levels(columns.free, columns.capacity, columns.empty).sum_cards()
        for kept, new in zip(self._levels, levels, strict=True):
            kept[rows] = new
        self._worth[rows] = self._measure(levels, columns.cpu, columns.host_bytes) @ self._weights

    def measure_losses(self, task: TaskType, rows: Ints, columns: Columns) -> npt.NDArray[np.float64]:
        """Return what each row loses by a task that fits it, in weighted cards; the least is the best.

        Its cards are taken to be the tightest that fit, as the search within a node takes them.

        Args:
            task: the task.
            rows: numbers of rows that were measured since they changed.
            columns: these rows alone.
        """
        cpu, host = columns.cpu - task.cpu_milli, columns.host_bytes - task.host_bytes
        levels = _Levels(*(each[rows] for each in self._levels))
        index = np.arange(len(rows))
        taken = 0.0
        if task.cards:
            fits = columns.empty if task.whole else columns.free >= max(1, task.memory_bytes)
            # The freest card comes first, so the last that fits is the tightest.
            for place in _last_places(fits, task.cards):
                free, capacity = columns.free[index, place], columns.capacity[index, place]
                empty = columns.empty[index, place]
                before = self._count_levels(free, capacity, empty)
                left = np.zeros_like(free) if task.whole else free - task.memory_bytes
                after = self._count_levels(left, capacity, np.zeros_like(empty))
                levels = _Levels(*(a - b + c for a, b, c in zip(levels, before, after, strict=True)))
                taken = taken + (free - left) / np.maximum(capacity, 1)
        worth = self._measure(levels, cpu, host) @ self._weights
        return (self._worth[rows] - worth).astype(np.float64) + _BEST_FIT * _measure_rest(columns, cpu, host, taken)

    def _count_levels(self, free: Ints, capacity: Ints, empty: npt.NDArray[np.bool_]) -> _Levels:
        amounts = self._amounts
        share = np.maximum(amounts, 1)
        size = np.maximum(capacity, 1)[..., None].astype(np.float32)
        left = np.maximum(free, 0)[..., None]
        tasks = (left // share).astype(np.float32)
        cards = (tasks > 0).astype(np.float32)
        filled = tasks * share.astype(np.float32) / size
        rest = cards * left.astype(np.float32) / size
        if len(amounts) and not amounts[0]:
            # Amount 0 are whole cards: each serves one task, and serves it wholly.
            for each in (tasks, cards, filled, rest):
                each[..., 0] = empty
        return _Levels(cards, tasks, filled, rest)

    def _measure(self, levels: _Levels, cpu: npt.NDArray[np.float64], host: npt.NDArray[np.float64]) -> Floats:
        """Return what each row has for each type, in cards."""
        level, needed = self._level, self._needed
        cards = levels.cards[:, level]
        tasks = np.where(self._several, cards / needed, levels.tasks[:, level])
        carried = np.minimum(cpu[:, None] / self._cpu, host[:, None] / self._host).astype(np.float32)
        part = np.minimum(1.0, carried / np.maximum(tasks, np.float32(1e-6)))
        filled = np.where(self._several, levels.free[:, level], levels.filled[:, level])
        usable = np.float32(_FILLED) * filled * part + np.float32(1 - _FILLED) * levels.free[:, level]
        usable *= (cards >= needed) & (carried >= 1)
        return usable.astype(np.float32)


def _last_places(fits: npt.NDArray[np.bool_], count: int) -> list[Ints]:
    """Return, for each row, where the last `count` cards that fit are."""
    remaining, found = fits.copy(), []
    index = np.arange(len(fits))
    for _ in range(count):
        place = fits.shape[1] - 1 - np.argmax(remaining[:, ::-1], axis=1)
        found.append(place)
        remaining[index, place] = False
    return found


def _measure_rest(
    columns: Columns, cpu: npt.NDArray[np.float64], host: npt.NDArray[np.float64], taken: npt.NDArray[np.float64] | float
) -> npt.NDArray[np.float64]:
    """Return how much is left, each thing as a part of what the largest of these nodes has."""
    cards = (np.maximum(columns.free, 0) / np.maximum(columns.capacity, 1)).sum(axis=1) - taken
    rest = cards / max(1, columns.free.shape[1])
    for each in (cpu, host):
        known = np.where(np.isfinite(each), each, 0.0)
        rest = rest + known / max(1.0, float(known.max(initial=0.0)))
    return rest
