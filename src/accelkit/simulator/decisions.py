"""The decisions of the extender for the pods in a replay (filter, rank, reserve), and their durations."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from accelkit.ledger.table import FITS
from accelkit.simulator.cluster import Cluster, Rows, make_request
from accelkit.simulator.rankings import Ranking, find_card_policy
from accelkit.simulator.trace import Task


class Times(NamedTuple):
    """The rate and the durations of decisions for tasks that request cards."""

    per_second: float
    p50_ms: float
    p99_ms: float


class Placed(NamedTuple):
    """The UID of a placed task, and the row of its node."""

    uid: str
    row: int


class Decisions:
    """Placement of tasks, one at a time, with a policy.

    Args:
        cluster: the cluster that runs the tasks.
        policy: the name of the policy.
        ranking: the implementation of the policy.
    """

    def __init__(self, cluster: Cluster, policy: str, ranking: Ranking) -> None:
        self._cluster, self._ranking = cluster, ranking
        self._card_policy = find_card_policy(policy)
        self._taken: list[float] = []

    def decide(self, task: Task) -> Placed | None:
        """Place a task on the node with the lowest cost; return None if it does not fit on any node."""
        started = time.perf_counter()
        self._ranking.note(task)
        rows, placed = self._find_rows(task), None
        if len(rows):
            # Nodes are in the order of the trace. If several nodes have the lowest cost, the first of these nodes is
            # chosen.
            placed = self.place(task, int(rows[np.argmin(self._ranking.rank(task, rows))]))
        if task.cards:
            self._taken.append(time.perf_counter() - started)
        return placed

    def place(self, task: Task, row: int) -> Placed:
        """Place a task on a given node, on which it fits."""
        return Placed(self._cluster.place(task, row, self._card_policy), row)

    def measure_times(self) -> Times:
        """Return the rate and the durations of all decisions so far."""
        seconds = np.array(self._taken or [0.0])
        p50, p99 = (round(1000 * float(np.percentile(seconds, part)), 4) for part in (50, 99))
        return Times(round(len(self._taken) / max(1e-9, float(seconds.sum())), 1), p50, p99)

    def _find_rows(self, task: Task) -> Rows:
        """Return the rows of the nodes on which a task fits. The extender returns node names instead."""
        rows, table = self._cluster.find_rows(task), self._cluster.ledger.table
        return rows[table.judge(make_request(task), rows) == FITS] if task.cards else rows
