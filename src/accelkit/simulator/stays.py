"""Workload of tasks that end, in which the concurrent tasks request a given part of all cards.

Tasks of the trace, with their lifetimes, arrive at random times at a constant rate (a Poisson process). By Little's
law, the mean demand is the rate times the mean product of demand and lifetime, so the load determines the rate.

Lifetimes in real traces range from seconds to months, and an empty cluster would take months to fill. Therefore, the
workload starts with the tasks that would be running at a random moment. These tasks are drawn in proportion to their
lifetimes, and a random part of each lifetime has already passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from accelkit.errors import ConfigurationError
from accelkit.simulator.trace import WHOLE_MILLI, Task


class Stay(NamedTuple):
    """A task that arrives and ends.

    Attributes:
        arrives: the arrival time, in seconds after the start.
        lasts: the time from placement to end, in seconds.
    """

    task: Task
    arrives: float
    lasts: float


def draw_lifetimes(lifetimes: Sequence[float], tasks: int, seed: int) -> list[float]:
    """Return random lifetimes for a number of tasks, drawn from a list of lifetimes."""
    return Random(seed).choices(lifetimes, k=tasks)  # noqa: S311 - a workload is no secret


def make_stays(
    tasks: Sequence[Task], lifetimes: Sequence[float], cards: int, *, load: float, arrivals: int, random: Random
) -> list[Stay]:
    """Return the tasks that run at the start, in random order, followed by the arrivals.

    Args:
        tasks: the tasks of the trace; some of them request cards.
        lifetimes: the lifetimes of these tasks, in seconds.
        cards: the number of cards of the cluster.
        load: the mean part of the cards that would be allocated if each task were placed immediately.
        arrivals: the number of arrivals after the start.
        random: the random number generator that chooses tasks and times.

    Raises:
        ConfigurationError: no task with a card has a lifetime.
    """
    lasts = np.maximum(np.array(lifetimes, dtype=np.float64), 1.0)
    work = float((np.array([task.demand_milli for task in tasks]) * lasts).mean())
    if not work or not arrivals:
        raise ConfigurationError("the workload is empty", next_step="set tasks with cards, and --arrivals above 0")
    generator = np.random.default_rng(random.getrandbits(64))
    rate = load * cards * WHOLE_MILLI / work
    first = generator.choice(len(tasks), size=generator.poisson(rate * lasts.mean()), p=lasts / lasts.sum())
    left = lasts[first] * generator.random(len(first))
    stays = [Stay(tasks[each], 0.0, float(rest)) for each, rest in zip(first, left, strict=True)]
    times = np.cumsum(generator.exponential(1 / rate, arrivals))
    come = generator.integers(len(tasks), size=arrivals)
    return stays + [Stay(tasks[each], float(time), float(lasts[each])) for each, time in zip(come, times, strict=True)]
