"""Costs of placing a task on each node, which are cached until the node changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from accelkit.ledger.table import Table
from accelkit.placement.fragmentation import Usability
from accelkit.placement.mix import TaskMix, TaskType

_TASKS: Final = 512
# Scarcity is measured again after this number of table changes per card, but not before the minimum number of changes
# below. With thousands of cards, the mix changes more frequently than scarcity is measured. With fewer cards, free
# amounts change faster than the mix.
_CHANGES_PER_CARD: Final = 0.6
_LEAST_CHANGES: Final = 128

T = TypeVar("T", bound=Hashable)

Costs = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


class KeptCosts(Generic[T]):
    """The cost of each row for each kind of task, which is cached while the row does not change.

    Args:
        table: the nodes.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        # The cost of each row for each task, and the tick of its measurement; -1 if the row was never measured.
        self._kept: OrderedDict[T, tuple[Costs, Rows]] = OrderedDict()

    def read(self, task: T, rows: Rows, measure: Callable[[Rows], Costs]) -> Costs:
        """Return the cost of each of the given rows. Changed rows are measured again.

        Args:
            task: the task.
            rows: the numbers of the rows.
            measure: returns the costs of the given rows.
        """
        kept, count = self._kept.get(task), self._table.rows
        if kept is None or len(kept[0]) < count:
            kept = self._kept[task] = np.zeros(2 * count), np.full(2 * count, -1, dtype=np.int64)
        self._kept.move_to_end(task)
        if len(self._kept) > _TASKS:
            self._kept.popitem(last=False)
        costs, at = kept
        stale = rows[self._table.changed_at[rows] > at[rows]]
        if len(stale):
            costs[stale], at[stale] = measure(stale), self._table.tick
        return costs[rows]

    def discard(self) -> None:
        """Discard all cached costs."""
        self._kept.clear()


class FragmentationCosts:
    """The loss of usable free amounts, according to the task mix, on each node if it gets a task.

    Args:
        table: the nodes.
        mix: the task mix, which the caller updates.
    """

    def __init__(self, table: Table, mix: TaskMix) -> None:
        self._table = table
        self._mix = mix
        self._usability = Usability()
        self._epoch = 0
        self._tick = -1
        self._rebuild_at = 0
        self._kept = KeptCosts[TaskType](table)

    def measure(self, task: TaskType, rows: Rows) -> Costs:
        """Return the cost of each of these rows. The task fits on all of them. The lowest cost is the best."""
        table = self._table
        columns = table.get_columns()
        if self._epoch != self._mix.epoch or table.tick > self._rebuild_at:
            self._usability.rebuild(self._mix.list_types(), columns)
            self._epoch, self._tick = self._mix.epoch, table.tick
            cards = np.count_nonzero(columns.capacity > 0)
            self._rebuild_at = table.tick + max(_LEAST_CHANGES, int(_CHANGES_PER_CARD * cards))
            self._kept.discard()
        elif self._tick != table.tick:
            changed = table.find_changed_rows(self._tick)
            self._usability.refresh(changed, columns.take(changed))
            self._tick = table.tick
        return self._kept.read(
            task, rows, lambda stale: self._usability.measure_losses(task, stale, columns.take(stale))
        )
