"""Ranks all nodes for a task by a policy, and keeps the ranks while the nodes do not change."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from accelkit.ledger.table import Table
from accelkit.placement.fragmentation import Usability
from accelkit.placement.mix import TaskMix, TaskType

_TASKS: Final = 512

Costs = npt.NDArray[np.float64]


@dataclass(slots=True)
class _Kept:
    """The costs of one type of task by row, as of a tick."""

    costs: Costs = field(default_factory=lambda: np.zeros(0))
    tick: int = -1


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

    def measure(self, task: TaskType) -> Costs:
        """Return the cost by row, the least is the best; it says nothing of rows that the task does not fit."""
        table = self._table
        columns = table.get_columns()
        if self._epoch != self._mix.epoch:
            self._usability.learn(self._mix.list_frequent(), columns)
            self._epoch, self._tick = self._mix.epoch, table.tick
            self._kept.clear()
        elif self._tick != table.tick:
            rows = table.find_changed_rows(self._tick)
            self._usability.refresh(rows, columns.take(rows))
            self._tick = table.tick
        kept = self._kept.setdefault(task, _Kept())
        self._kept.move_to_end(task)
        if len(self._kept) > _TASKS:
            self._kept.popitem(last=False)
        if kept.tick != table.tick:
            if len(kept.costs) < table.rows:
                kept.costs = np.concatenate([kept.costs, np.zeros(table.rows - len(kept.costs))])
            rows = table.find_changed_rows(kept.tick)
            kept.costs[rows] = self._usability.measure_losses(task, rows, columns.take(rows))
            kept.tick = table.tick
        return kept.costs
