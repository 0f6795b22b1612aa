"""Replays tasks that come and leave: what fits nowhere waits until a departure lets it in."""

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

# The first part of the time is for what the beginning leaves behind to wear off.
_MEASURED_FROM: Final = 0.5
_POINTS: Final = 100


class Turnover(Replay, frozen=True, kw_only=True):
    """What came of one replay with departures; what is measured, is measured over the second half of its time.

    In what it shares with a replay without them, `gpu_allocation_percent` is at the end too; `gpu_arrived_percent` and
    the curve count what would run if everything were placed when it comes.

    Attributes:
        time_weighted_allocation_percent: of all cards.
        measured_hours: how long that was.
        pending_mean: tasks that waited, by time.
        pending_most: at once.
        had_to_wait: of the tasks that came in that time.
        waited_p50_s: of the same tasks, in seconds; who was never placed has waited until the end.
        never_placed: of all, in the whole time.
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
    """What is measured between two times."""

    def __init__(self, begins: float, ends: float) -> None:
        self.begins, self.ends = begins, ends
        self._then = 0.0
        self.used, self.pending, self.most = 0.0, 0.0, 0
        self.points: list[int] = []

    def pass_on(self, now: float, used_milli: int, pending: int) -> None:
        """Note what was until now."""
        within = max(0.0, min(now, self.ends) - max(self._then, self.begins))
        self.used += used_milli * within
        self.pending += pending * within
        if within:
            self.most = max(self.most, pending)
        while len(self.points) <= _POINTS and self.ends * len(self.points) / _POINTS < now:
            self.points.append(used_milli)
        self._then = now


class _Residents:
    """Who is there, who waits, and when each leaves."""

    def __init__(self, cluster: Cluster, decisions: Decisions, stays: Sequence[Stay]) -> None:
        self._cluster, self._decisions = cluster, decisions
        self._waiting = WaitingTasks(cluster, (stay.task for stay in stays))
        self._leaving: list[tuple[float, int, Placed, Task]] = []
        self._begins = stays[-1].arrives * _MEASURED_FROM
        self.course = _Course(self._begins, stays[-1].arrives)
        self.placed = 0
        self.waited: list[float] = []

    def come(self, stay: Stay) -> None:
        """Place a task, or have it wait."""
        self._leave_until(stay.arrives)
        placed = self._decisions.decide(stay.task)
        if placed is None:
            self._waiting.put(stay)
        else:
            self._stay(stay, placed, stay.arrives)

    def end(self) -> None:
        """Count what those have waited that wait still."""
        self._pass_on(inf)
        for stay in self._waiting.list_all():
            self._count_waiting(stay, self.course.ends)

    def _leave_until(self, now: float) -> None:
        while self._leaving and self._leaving[0][0] <= now:
            time, _, gone, task = heappop(self._leaving)
            self._pass_on(time)
            self._cluster.remove(gone.uid, task, gone.row)
            while (stay := self._waiting.take_fitting(gone.row)) is not None:
                self._stay(stay, self._decisions.place(stay.task, gone.row), time)
        self._pass_on(now)

    def _stay(self, stay: Stay, placed: Placed, now: float) -> None:
        self.placed += 1
        self._count_waiting(stay, now)
        heappush(self._leaving, (now + stay.lasts, self.placed, placed, stay.task))

    def _count_waiting(self, stay: Stay, until: float) -> None:
        if stay.arrives >= self._begins:
            self.waited.append(until - stay.arrives)

    def _pass_on(self, now: float) -> None:
        self.course.pass_on(now, self._cluster.used_milli, len(self._waiting))


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
    """Have tasks come to a cluster that is as full as the load has it, and leave it again.

    Args:
        nodes: of the trace.
        tasks: of the trace.
        lifetimes: of the same tasks, in seconds.
        policy: one of `rankings.RANKINGS`.
        seed: of who comes when; the same for every policy.
        load: mean demand of those that would run if everything were placed at once, as a part of all cards.
        arrivals: how many come after the beginning.

    Raises:
        ConfigurationError: the load is no load, or nothing comes.
    """
    check_load(load)
    random = Random(seed)  # noqa: S311 - a workload is no secret
    cluster = Cluster(nodes)
    stays = make_stays(tasks, lifetimes, cluster.cards, load=load, arrivals=arrivals, random=random)
    decisions = Decisions(cluster, policy, make_ranking(policy, cluster, tasks, random))
    residents = _Residents(cluster, decisions, stays)
    for stay in stays:
        residents.come(stay)
    residents.end()
    course, total, times = residents.course, cluster.cards * WHOLE_MILLI, decisions.measure_times()
    seconds = course.ends - course.begins
    demand, arrived = _measure_demand(stays, course)
    curve = zip(arrived, course.points, strict=True)
    waited = np.array(residents.waited)
    p50, p99 = (round(float(np.percentile(waited, part)), 1) for part in (50, 99))
    return Turnover(
        policy=policy,
        seed=seed,
        load=load,
        nodes=len(nodes),
        cards=cluster.cards,
        arrivals=len(stays),
        placed=residents.placed,
        refused=len(stays) - residents.placed,
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
        never_placed=len(stays) - residents.placed,
    )


def _measure_demand(stays: Sequence[Stay], course: _Course) -> tuple[float, list[float]]:
    """Return what would run if everything were placed at once, in thousandths of cards: its mean, and by points."""
    milli = np.array([stay.task.demand_milli for stay in stays], dtype=np.float64)
    come = np.array([stay.arrives for stay in stays])
    gone = come + [stay.lasts for stay in stays]
    within = np.clip(np.minimum(gone, course.ends) - np.maximum(come, course.begins), 0.0, None)
    times = np.linspace(0.0, course.ends, _POINTS + 1)
    curve = [float(milli[(come <= time) & (gone > time)].sum()) for time in times]
    return float((milli * within).sum()) / (course.ends - course.begins), curve
