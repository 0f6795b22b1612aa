"""Replay of task arrivals, one at a time, with the steps of the extender for a pod: filter, rank and reserve."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.simulator.cluster import Cluster
from accelkit.simulator.decisions import Decisions
from accelkit.simulator.rankings import make_ranking
from accelkit.simulator.trace import WHOLE_MILLI, Task, TraceNode
from accelkit.simulator.workload import make_arrivals

# The number of points on the curve, which is sufficient for the resolution of a plot.
_POINTS: Final = 100
_MOST_LOAD: Final = 100.0


class Replay(msgspec.Struct, frozen=True):
    """The result of a replay.

    Attributes:
        gpu_allocation_percent: the percentage of all cards that is allocated at the end.
        gpu_arrived_percent: the total of the requests, as a percentage of all cards.
        decisions_per_second: the rate of decisions for tasks that request cards.
        decision_p50_ms: the median duration of a decision (filter, rank, reserve) for tasks that request cards.
        curve: pairs of the requested fraction and the allocated fraction of all cards.
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
    """Replay a workload of tasks that do not finish, on empty nodes. Drop tasks that do not fit on any node.

    Args:
        nodes: the nodes in the trace.
        tasks: the tasks in the trace.
        policy: one of `rankings.RANKINGS`.
        seed: the seed for the selection and the order of the tasks, which are the same for every policy.
        load: the total of the requests, relative to all cards.

    Raises:
        ConfigurationError: the load is invalid.
    """
    check_load(load)
    random = Random(seed)  # noqa: S311 - a workload is no secret
    cluster = Cluster(nodes)
    arrivals = make_arrivals(tasks, cluster.cards, load, random)
    decisions = Decisions(cluster, policy, make_ranking(policy, cluster, tasks, random))
    arrived, placed, curve = 0, 0, [(0.0, 0.0)]
    total = cluster.cards * WHOLE_MILLI
    for task in arrivals:
        placed += decisions.decide(task) is not None
        arrived += task.demand_milli
        if arrived >= len(curve) * load * total / _POINTS:
            curve.append((round(arrived / total, 5), round(cluster.used_milli / total, 5)))
    times = decisions.measure_times()
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
        decisions_per_second=times.per_second,
        decision_p50_ms=times.p50_ms,
        decision_p99_ms=times.p99_ms,
        curve=tuple(curve),
    )


def check_load(load: float) -> None:
    """Check that a load is valid.

    Raises:
        ConfigurationError: the load is not greater than 0, or it is too large.
    """
    if not 0 < load <= _MOST_LOAD:
        raise ConfigurationError(f"cannot replay a load of {load:g}", next_step="set a part of all cards, such as 1.3")
