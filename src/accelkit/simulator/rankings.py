"""The policies that a replay can follow: ours, and those of others that they are held against.

A ranking gives the candidates of a task their costs; the first of the least wins.
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
    """One policy at work."""

    def note(self, task: Task) -> None:
        """Take note of a task that has come, whether it fits or not."""

    def rank(self, task: Task, rows: Rows) -> Costs:
        """Return the cost of each of these rows, all of which the task fits."""


class _Heedless:
    """A policy that learns nothing."""

    def note(self, task: Task) -> None:
        """Take no note."""


class _Random(_Heedless):
    def __init__(self, random: Random) -> None:
        self._generator = np.random.default_rng(random.getrandbits(64))

    def rank(self, _task: Task, rows: Rows) -> Costs:
        return self._generator.random(len(rows))


class _BestFit(_Heedless):
    """The node with least left of CPU and cards together, each as a part of what the largest node has."""

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


class _UsedFraction(_Heedless):
    """Our `binpack` and `spread`, which look at the cards alone."""

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


class _Fgd(_Heedless):
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
    """Return a policy, ready for a replay.

    Args:
        name: one of `RANKINGS`.
        cluster: on which it places.
        tasks: the trace, which `fgd` alone is told beforehand, as in its paper.
        random: of which `random` draws.
    """
    return _MAKERS[name](cluster, tasks, random)


def find_card_policy(name: str) -> Policy:
    """Return the policy by which the ledger chooses cards within a node: the tightest, but for `spread`."""
    return Policy.SPREAD if name == "spread" else Policy.BINPACK
