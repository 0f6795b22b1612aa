"""Replay of tasks that arrive and finish. A task that does not fit on any node waits until another task finishes."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Final

import numpy as np

from accelkit.simulator.cluster import Cluster
from accelkit.simulator.decisions import Decisions, Placed
from accelkit.simulator.rankings import make_ranking
from accelkit.simulator.replay import Replay, check_load
from accelkit.simulator.stays import Stay, make_stays
from accelkit.simulator.trace import WHOLE_MILLI, Task, TraceNode
from accelkit.simulator.waiting import WaitingTasks

# The fraction of the time that is not measured, so that startup effects do not affect the results.
_MEASURED_FROM: Final = 0.5
_POINTS: Final = 100


class Turnover(Replay, frozen=True, kw_only=True):
    """The result of a replay in which tasks finish. Measurements are made in the second half of the simulated time.

    As in a replay in which tasks do not finish, `gpu_allocation_percent` is the value at the end. For
    `gpu_arrived_percent` and the curve, every task is assumed to be placed on arrival.

    Attributes:
        time_weighted_allocation_percent: the percentage of all cards that is allocated, averaged over time.
        measured_hours: the duration of the measurement, in hours of simulated time.
        pending_mean: the number of waiting tasks, averaged over time.
        pending_most: the maximum number of tasks that waited at the same time.
        had_to_wait: the number of tasks that arrived during the measurement and had to wait.
        waited_p50_s: the median waiting time of all tasks that arrived during the measurement, in seconds. If a task
            was never placed, its waiting time ends with the replay.
        never_placed: the number of tasks that were never placed, during the whole replay.
    """

    time_weighted_allocation_percent: float
    measured_hours: float
    pending_mean: float
    pending_most: int
    had_to_wait: int
    waited_p50_s: float
    waited_p99_s: float
    never_placed: int


class _Course:
    """Measurements between a start time and an end time."""

    def __init__(self, begins: float, ends: float) -> None:
        self.begins, self.ends = begins, ends
        self._previous = 0.0
        self.used, self.pending, self.most = 0.0, 0.0, 0
        self.points: list[int] = []

    def advance(self, now: float, used_milli: int, pending: int) -> None:
        """Measure the period from the previous call until now, in which the state did not change."""
        within = max(0.0, min(now, self.ends) - max(self._previous, self.begins))
        self.used += used_milli * within
        self.pending += pending * within
        if within:
            self.most = max(self.most, pending)
        while len(self.points) <= _POINTS and self.ends * len(self.points) / _POINTS < now:
            self.points.append(used_milli)
        self._previous = now


class _RunningTasks:
    """The running tasks, with their end times, and the waiting tasks."""

    def __init__(self, cluster: Cluster, decisions: Decisions, stays: Sequence[Stay]) -> None:
        self._cluster, self._decisions = cluster, decisions
        self._waiting = WaitingTasks(cluster, (stay.task for stay in stays))
        self._ends: list[tuple[float, int, Placed, Task]] = []
        self._begins = stays[-1].arrives * _MEASURED_FROM
        self.course = _Course(self._begins, stays[-1].arrives)
        self.placed = 0
        self.waited: list[float] = []

    def arrive(self, stay: Stay) -> None:
        """Place a task, or queue it."""
        self._end_until(stay.arrives)
        placed = self._decisions.decide(stay.task)
        if placed is None:
            self._waiting.put(stay)
        else:
            self._stay(stay, placed, stay.arrives)

    def end(self) -> None:
        """Record the waiting times of the tasks that are still waiting at the end."""
        self._advance(inf)
        for stay in self._waiting.list_all():
            self._count_waiting(stay, self.course.ends)

    def _end_until(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            time, _, gone, task = heappop(self._ends)
            self._advance(time)
            self._cluster.remove(gone.uid, task, gone.row)
            while (stay := self._waiting.take_fitting(gone.row)) is not None:
                self._stay(stay, self._decisions.place(stay.task, gone.row), time)
        self._advance(now)

    def _stay(self, stay: Stay, placed: Placed, now: float) -> None:
        self.placed += 1
        self._count_waiting(stay, now)
        heappush(self._ends, (now + stay.lasts, self.placed, placed, stay.task))

    def _count_waiting(self, stay: Stay, until: float) -> None:
        if stay.arrives >= self._begins:
            self.waited.append(until - stay.arrives)

    def _advance(self, now: float) -> None:
        self.course.advance(now, self._cluster.used_milli, len(self._waiting))


def replay_turnover(
    nodes: Sequence[TraceNode],
    tasks: Sequence[Task],
    lifetimes: Sequence[float],
    policy: str,
    *,
    seed: int,
    load: float,
    arrivals: int,
) -> Turnover:
    """Replay tasks that arrive and finish. Initially, the cluster is filled up to the load.

    Args:
        nodes: the nodes in the trace.
        tasks: the tasks in the trace.
        lifetimes: the lifetimes of these tasks, in seconds.
        policy: one of `rankings.RANKINGS`.
        seed: the seed for the arrivals, which are the same for every policy.
        load: the mean demand if every task were placed on arrival, relative to all cards.
        arrivals: the number of arrivals after the start.

    Raises:
        ConfigurationError: the load is invalid, or no tasks arrive.
    """
    check_load(load)
    random = Random(seed)  # noqa: S311 - a workload is no secret
    cluster = Cluster(nodes)
    stays = make_stays(tasks, lifetimes, cluster.cards, load=load, arrivals=arrivals, random=random)
    decisions = Decisions(cluster, policy, make_ranking(policy, cluster, tasks, random))
    running = _RunningTasks(cluster, decisions, stays)
    for stay in stays:
        running.arrive(stay)
    running.end()
    course, total, times = running.course, cluster.cards * WHOLE_MILLI, decisions.measure_times()
    seconds = course.ends - course.begins
    demand, arrived = _measure_demand(stays, course)
    curve = zip(arrived, course.points, strict=True)
    waited = np.array(running.waited)
    p50, p99 = (round(float(np.percentile(waited, part)), 1) for part in (50, 99))
    return Turnover(
        policy=policy,
        seed=seed,
        load=load,
        nodes=len(nodes),
        cards=cluster.cards,
        arrivals=len(stays),
        placed=running.placed,
        refused=len(stays) - running.placed,
        gpu_allocation_percent=round(100 * cluster.used_milli / total, 3),
        gpu_arrived_percent=round(100 * demand / total, 3),
        decisions_per_second=times.per_second,
        decision_p50_ms=times.p50_ms,
        decision_p99_ms=times.p99_ms,
        curve=tuple((round(one / total, 5), round(two / total, 5)) for one, two in curve),
        time_weighted_allocation_percent=round(100 * course.used / seconds / total, 3),
        measured_hours=round(seconds / 3600, 3),
        pending_mean=round(course.pending / seconds, 2),
        pending_most=course.most,
        had_to_wait=int((waited > 0).sum()),
        waited_p50_s=p50,
        waited_p99_s=p99,
        never_placed=len(stays) - running.placed,
    )


def _measure_demand(stays: Sequence[Stay], course: _Course) -> tuple[float, list[float]]:
    """Return the mean and the curve of the demand if every task were placed on arrival, in thousandths of a card."""
    milli = np.array([stay.task.demand_milli for stay in stays], dtype=np.float64)
    arrive = np.array([stay.arrives for stay in stays])
    gone = arrive + [stay.lasts for stay in stays]
    within = np.clip(np.minimum(gone, course.ends) - np.maximum(arrive, course.begins), 0.0, None)
    times = np.linspace(0.0, course.ends, _POINTS + 1)
    curve = [float(milli[(arrive <= time) & (gone > time)].sum()) for time in times]
    return float((milli * within).sum()) / (course.ends - course.begins), curve
