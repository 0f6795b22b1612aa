"""Ranks all nodes for a task by a policy, and keeps the ranks while the nodes do not change."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from accelkit.ledger.table import Table
from accelkit.placement.fragmentation import Usability
from accelkit.placement.mix import TaskMix, TaskType

_TASKS: Final = 512

Costs = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Kept:
    """The costs of one type of task by row, and as of which tick each is; -1 for never."""

    costs: Costs
    at: npt.NDArray[np.int64]


class FragmentationCosts:
    """What a task takes of what the mix of tasks could use, on every node.

    Args:
        table: the nodes.
        mix: what tasks come; it grows elsewhere.
    """

    def __init__(self, table: Table, mix: TaskMix) -> None:
        self._table = table
        self._mix = mix
        self._usability = Usability()
        self._epoch = 0
        self._tick = -1
        self._kept: OrderedDict[TaskType, _Kept] = OrderedDict()

    def measure(self, task: TaskType, rows: Rows) -> Costs:
        """Return the cost of each of these rows, all of which the task fits; the least is the best."""
        table = self._table
        columns = table.get_columns()
        if self._epoch != self._mix.epoch:
            self._usability.learn(self._mix.list_types(), columns)
            self._epoch, self._tick = self._mix.epoch, table.tick
            self._kept.clear()
        elif self._tick != table.tick:
            changed = table.find_changed_rows(self._tick)
            self._usability.refresh(changed, columns.take(changed))
            self._tick = table.tick
        kept = self._keep(task)
        stale = rows[table.changed_at[rows] > kept.at[rows]]
        if len(stale):
            kept.costs[stale] = self._usability.measure_losses(task, stale, columns.take(stale))
            kept.at[stale] = table.tick
        return kept.costs[rows]

    def _keep(self, task: TaskType) -> _Kept:
        kept, rows = self._kept.get(task), self._table.rows
        if kept is None or len(kept.at) < rows:
            kept = self._kept[task] = _Kept(np.zeros(2 * rows), np.full(2 * rows, -1, dtype=np.int64))
        self._kept.move_to_end(task)
        if len(self._kept) > _TASKS:
            self._kept.popitem(last=False)
        return kept
