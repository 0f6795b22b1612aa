"""Queue of tasks that do not fit on any node. They wait, in order of arrival, until another task finishes.

As in kube-scheduler's queue, waiting tasks are retried when a task finishes, oldest first. A task that does not fit
does not block later tasks. When a task finishes, only its node changes. Therefore, waiting tasks are retried only on
this node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from accelkit.simulator.cluster import Cluster, make_type
from accelkit.simulator.stays import Stay
from accelkit.simulator.trace import Task

_NONE_WAITING: Final = np.iinfo(np.int64).max


class WaitingTasks:
    """The waiting tasks, grouped by their requests.

    Args:
        cluster: the cluster that runs the tasks.
        tasks: all tasks that may arrive.
    """

    def __init__(self, cluster: Cluster, tasks: Iterable[Task]) -> None:
        self._cluster = cluster
        self._kinds = {task: place for place, task in enumerate(dict.fromkeys(tasks))}
        self._queues: list[deque[tuple[int, Stay]]] = [deque() for _ in self._kinds]
        # The sequence number of the oldest task for each request.
        self._oldest = np.full(len(self._kinds), _NONE_WAITING, dtype=np.int64)
        amounts = [[each.cpu_milli, each.memory_mib] for each in self._kinds]
        self._host = np.array(amounts, dtype=np.int64).reshape(-1, 2)
        types = [make_type(task) for task in self._kinds]
        # A task that requests a share uses part of one card. Whole cards must not be in use.
        self._share = np.array([each.memory_bytes for each in types], dtype=np.int64)
        self._whole = np.array([each.cards if each.whole else 0 for each in types], dtype=np.int64)
        self._allowed = np.array([cluster.allows(task) for task in self._kinds]).T
        self._put = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, stay: Stay) -> None:
        """Add a task that does not fit on any node to the queue."""
        kind = self._kinds[stay.task]
        if not self._queues[kind]:
            self._oldest[kind] = self._put
        self._queues[kind].append((self._put, stay))
        self._put += 1
        self._count += 1

    def list_all(self) -> Iterator[Stay]:
        """Return all waiting tasks."""
        return (stay for queue in self._queues for _, stay in queue)

    def take_fitting(self, row: int) -> Stay | None:
        """Remove and return the oldest task that fits on a row; None if no task fits."""
        if not self._count:
            return None
        (cpu,), (host,) = self._cluster.measure_host(np.array([row]))
        columns = self._cluster.ledger.table.get_columns().take(np.array([row]))
        fits = (self._oldest < _NONE_WAITING) & self._allowed[row] & (self._host <= (cpu, host)).all(axis=1)
        fits &= (self._share <= max(0, columns.free.max())) & (self._whole <= columns.empty.sum())
        if not fits.any():
            return None
        kind = int(np.argmin(np.where(fits, self._oldest, _NONE_WAITING)))
        queue = self._queues[kind]
        _, stay = queue.popleft()
        self._oldest[kind] = queue[0][0] if queue else _NONE_WAITING
        self._count -= 1
        return stay
