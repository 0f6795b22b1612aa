"""Fragmentation Gradient Descent, a policy for comparison. The module `workload` builds the workload from its paper.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC
'23). The fragmentation of a node is the expected free amount of its cards that a random task in the trace cannot use.
If the task does not fit on the node, this is the total free amount. The policy chooses the node whose fragmentation
increases the least. It uses the task mix of the whole trace in advance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from accelkit.ledger.priorities import KeptCosts
from accelkit.simulator.cluster import Cluster, Rows
from accelkit.simulator.trace import WHOLE_MILLI, Task

# The weight of the tie-breaker, in thousandths of a card. Among nodes with equal fragmentation, the fullest node is
# chosen. This is required to reproduce the published results. In the program of the paper, the rounding of scores has
# the same effect.
_BEST_FIT: Final = 10.0

Matrix = npt.NDArray[np.int64]


class FgdCosts:
    """The costs of placements under this policy, cached for nodes that have not changed.

    Args:
        cluster: the cluster that runs the tasks.
        tasks: the tasks in the trace.
    """

    def __init__(self, cluster: Cluster, tasks: Sequence[Task]) -> None:
        self._cluster, self._table = cluster, cluster.ledger.table
        counts = Counter(task for task in tasks if task.cards)
        self._types = list(counts)
        self._part = np.array([count / len(tasks) for count in counts.values()])
        self._milli, self._needed, self._cpu, self._host = (
            np.array([getattr(task, each) for task in self._types], dtype=np.int64)
            for each in ("milli", "cards", "cpu_milli", "memory_mib")
        )
        rows = np.arange(self._table.rows)
        self._allowed = np.array([cluster.allows(task) for task in self._types]).T
        self._largest = [max(1, int(each.max())) for each in cluster.measure_host(rows)]
        self._kept = KeptCosts[Task](self._table)

    def rank(self, task: Task, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the cost of placing the task on each of these rows."""
        return self._kept.read(task, rows, lambda stale: self._measure(task, stale))

    def _measure(self, task: Task, rows: Rows) -> npt.NDArray[np.float64]:
        columns = self._table.get_columns().take(rows)
        # Columns that do not represent a card have a free amount of 0.
        free = np.maximum(columns.free, 0) * WHOLE_MILLI // max(1, int(columns.capacity.max(initial=1)))
        cpu, host = self._cluster.measure_host(rows)
        before = self._fragment(free, cpu, host, rows)
        after = free.copy()
        index = np.arange(len(rows))
        for _ in range(task.cards):
            # Cards are sorted by free capacity in descending order, so the last card on which the task fits has the
            # least free capacity.
            place = np.maximum((after >= task.milli).sum(axis=1) - 1, 0)
            after[index, place] -= task.milli
            after[:] = -np.sort(-after, axis=1)
        cpu, host = cpu - task.cpu_milli, host - task.memory_mib
        rest = cpu / self._largest[0] + host / self._largest[1] + after.sum(axis=1) / (WHOLE_MILLI * free.shape[1])
        costs: npt.NDArray[np.float64] = self._fragment(after, cpu, host, rows) - before + _BEST_FIT * rest
        return costs

    def _fragment(self, free: Matrix, cpu: Rows, host: Rows, rows: Rows) -> npt.NDArray[np.float64]:
        """Return the expected free amount that a random task in the trace cannot use, in thousandths of a card."""
        total = free.sum(axis=1)
        fits = self._allowed[rows] & (cpu[:, None] >= self._cpu) & (host[:, None] >= self._host)
        usable = np.zeros((len(rows), len(self._types)), dtype=np.int64)
        for milli in np.unique(self._milli):
            of = self._milli == milli
            large = free >= milli
            room = np.where(large, free, 0).sum(axis=1)
            usable[:, of] = np.where(large.sum(axis=1)[:, None] >= self._needed[of], room[:, None], 0)
        lost: npt.NDArray[np.float64] = (total[:, None] - np.where(fits, usable, 0)) @ self._part
        return lost
