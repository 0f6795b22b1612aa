"""Replays arrivals one at a time: filter, rank, reserve, as the extender does for a pod."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec
import numpy as np

from accelkit.errors import ConfigurationError
from accelkit.ledger.table import FITS
from accelkit.simulator.cluster import Cluster, Rows, make_request
from accelkit.simulator.rankings import find_card_policy, make_ranking
from accelkit.simulator.trace import WHOLE_MILLI, Task, TraceNode
from accelkit.simulator.workload import make_arrivals

# Points of the curve: more than a plot shows.
_POINTS: Final = 100
_MOST_LOAD: Final = 100.0


class Replay(msgspec.Struct, frozen=True):
    """What came of one replay.

    Attributes:
        gpu_allocation_percent: of all cards, at the end.
        gpu_arrived_percent: what the arrivals asked for, of the same.
        decisions_per_second: over all arrivals that ask for cards.
        decision_p50_ms: of one decision: filter, rank, reserve; those of pods without cards are not counted.
        curve: pairs of what had been asked for and what was allocated, as parts of all cards.
    """

    policy: str
    seed: int
    load: float
    nodes: int
    cards: int
    arrivals: int
    placed: int
    refused: int
    gpu_allocation_percent: float
    gpu_arrived_percent: float
    decisions_per_second: float
    decision_p50_ms: float
    decision_p99_ms: float
    curve: tuple[tuple[float, float], ...]


def replay(nodes: Sequence[TraceNode], tasks: Sequence[Task], policy: str, *, seed: int, load: float) -> Replay:
    """Submit a workload made of the tasks to the empty nodes; what fits nowhere is dropped, and nobody leaves.

    Args:
        nodes: of the trace.
        tasks: of the trace.
        policy: one of `rankings.RANKINGS`.
        seed: of the mix and the order; the same for every policy.
        load: what the arrivals ask for, as a part of all cards.

    Raises:
        ConfigurationError: the load is no load.
    """
    if not 0 < load <= _MOST_LOAD:
        raise ConfigurationError(f"a load of {load:g} cannot be replayed", next_step="give a part of all cards: 1.3")
    random = Random(seed)  # noqa: S311 - a workload is no secret
    cluster = Cluster(nodes)
    arrivals = make_arrivals(tasks, cluster.cards, load, random)
    ranking = make_ranking(policy, cluster, tasks, random)
    card_policy, taken = find_card_policy(policy), list[float]()
    arrived, placed, curve = 0, 0, [(0.0, 0.0)]
    total = cluster.cards * WHOLE_MILLI
    for task in arrivals:
        started = time.perf_counter()
        rows = _find_rows(cluster, task)
        if len(rows):
            # The first of equals: nodes are in the trace's order.
            cluster.place(task, int(rows[np.argmin(ranking.rank(task, rows))]), card_policy)
            placed += 1
        if task.cards:
            taken.append(time.perf_counter() - started)
        arrived += task.demand_milli
        if arrived >= len(curve) * load * total / _POINTS:
            curve.append((round(arrived / total, 5), round(cluster.used_milli / total, 5)))
    seconds = np.array(taken)
    return Replay(
        policy=policy,
        seed=seed,
        load=load,
        nodes=len(nodes),
        cards=cluster.cards,
        arrivals=len(arrivals),
        placed=placed,
        refused=len(arrivals) - placed,
        gpu_allocation_percent=round(100 * cluster.used_milli / total, 3),
        gpu_arrived_percent=round(100 * arrived / total, 3),
        decisions_per_second=round(len(seconds) / float(seconds.sum()), 1),
        decision_p50_ms=round(1000 * float(np.percentile(seconds, 50)), 4),
        decision_p99_ms=round(1000 * float(np.percentile(seconds, 99)), 4),
        curve=tuple(curve),
    )


def _find_rows(cluster: Cluster, task: Task) -> Rows:
    """Return the rows that a task fits: what the extender does for a pod, with rows in place of names."""
    rows, table = cluster.find_rows(task), cluster.ledger.table
    return rows[table.judge(make_request(task), rows) == FITS] if task.cards else rows
