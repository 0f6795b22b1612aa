"""The policies for replays: accelkit's policies, and additional policies for comparison.

A ranking returns the costs of the candidate nodes for a task. The replay chooses the first candidate with the lowest
cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from accelkit.ledger.priorities import FragmentationCosts
from accelkit.placement.mix import TaskMix
from accelkit.placement.policies import Policy
from accelkit.simulator.cluster import Cluster, Rows, make_type
from accelkit.simulator.fgd import FgdCosts
from accelkit.simulator.trace import Task

Costs = npt.NDArray[np.float64]


class Ranking(Protocol):
    """A policy during a replay."""

    def note(self, task: Task) -> None:
        """Record the arrival of a task, even if the task does not fit."""

    def rank(self, task: Task, rows: Rows) -> Costs:
        """Return the cost of each of these rows. The task fits on all of them."""


class _Stateless:
    """A policy that does not depend on earlier tasks."""

    def note(self, task: Task) -> None:
        """Ignore the arrival of a task."""


class _Random(_Stateless):
    def __init__(self, random: Random) -> None:
        self._generator = np.random.default_rng(random.getrandbits(64))

    def rank(self, _task: Task, rows: Rows) -> Costs:
        return self._generator.random(len(rows))


class _BestFit(_Stateless):
    """A policy that chooses the node with the least free CPU and card capacity, relative to the largest node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        cpu, _ = cluster.measure_host(np.arange(cluster.ledger.table.rows))
        self._largest = max(1, int(cpu.max()))

    def rank(self, _task: Task, rows: Rows) -> Costs:
        cpu, _ = self._cluster.measure_host(rows)
        free = self._cluster.ledger.table.get_columns().take(rows)
        cards = (np.maximum(free.free, 0) / np.maximum(free.capacity, 1)).sum(axis=1) / free.free.shape[1]
        left: Costs = cpu / self._largest + cards
        return left


class _UsedFraction(_Stateless):
    """The policies `binpack` and `spread`, which depend only on the used fraction of the cards in a node."""

    def __init__(self, cluster: Cluster, sign: float) -> None:
        self._table, self._sign = cluster.ledger.table, sign

    def rank(self, _task: Task, rows: Rows) -> Costs:
        return self._sign * self._table.used_fraction[rows]


class _Fragmentation:
    def __init__(self, cluster: Cluster) -> None:
        self._mix = TaskMix()
        self._costs = FragmentationCosts(cluster.ledger.table, self._mix)

    def note(self, task: Task) -> None:
        self._mix.observe(make_type(task))

    def rank(self, task: Task, rows: Rows) -> Costs:
        return self._costs.measure(make_type(task), rows)


class _Fgd(_Stateless):
    def __init__(self, cluster: Cluster, tasks: Sequence[Task]) -> None:
        self._costs = FgdCosts(cluster, tasks)

    def rank(self, task: Task, rows: Rows) -> Costs:
        return self._costs.rank(task, rows)


_MAKERS: Final[dict[str, Callable[[Cluster, Sequence[Task], Random], Ranking]]] = {
    "binpack": lambda cluster, _tasks, _random: _UsedFraction(cluster, -1.0),
    "spread": lambda cluster, _tasks, _random: _UsedFraction(cluster, 1.0),
    "fragmentation": lambda cluster, _tasks, _random: _Fragmentation(cluster),
    "random": lambda _cluster, _tasks, random: _Random(random),
    "bestfit": lambda cluster, _tasks, _random: _BestFit(cluster),
    "fgd": lambda cluster, tasks, _random: _Fgd(cluster, tasks),
}
RANKINGS: Final = tuple(_MAKERS)


def make_ranking(name: str, cluster: Cluster, tasks: Sequence[Task], random: Random) -> Ranking:
    """Return a policy for a replay.

    Args:
        name: one of `RANKINGS`.
        cluster: the cluster that runs the tasks.
        tasks: the tasks in the trace. Only `fgd` uses them in advance, as in its paper.
        random: the random number generator for the policy `random`.
    """
    return _MAKERS[name](cluster, tasks, random)


def find_card_policy(name: str) -> Policy:
    """Return the policy that chooses cards on a node: `spread` if `name` is `spread`, otherwise `binpack`."""
    return Policy.SPREAD if name == "spread" else Policy.BINPACK
