"""Workload of tasks that finish. On average, the concurrent tasks request a given fraction of all cards.

Tasks from the trace, each with its lifetime, arrive at random times at a constant rate (a Poisson process). According
to Little's law, the mean demand is the rate times the mean product of demand and lifetime. Therefore, the load
determines the rate.

Lifetimes in real traces range from seconds to months, so it would take months to fill an empty cluster. Therefore, the
workload starts with the tasks that would be running at a random time. The probability of each task is proportional to
its lifetime, and a random part of the lifetime has already elapsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from accelkit.errors import ConfigurationError
from accelkit.simulator.trace import WHOLE_MILLI, Task


class Stay(NamedTuple):
    """A task that arrives at a given time, and finishes after a given time.

    Attributes:
        arrives: the arrival time, in seconds after the start of the replay.
        lasts: the time from the placement to the end of the task, in seconds.
    """

    task: Task
    arrives: float
    lasts: float


def draw_lifetimes(lifetimes: Sequence[float], tasks: int, seed: int) -> list[float]:
    """Return lifetimes for a number of tasks, which are drawn at random from a list."""
    return Random(seed).choices(lifetimes, k=tasks)  # noqa: S311 - a workload is no secret


def make_stays(
    tasks: Sequence[Task], lifetimes: Sequence[float], cards: int, *, load: float, arrivals: int, random: Random
) -> list[Stay]:
    """Return the tasks that are running at the start, in random order, followed by the arriving tasks.

    Args:
        tasks: the tasks in the trace. Some of these tasks request cards.
        lifetimes: the lifetimes of these tasks, in seconds.
        cards: the number of cards in the cluster.
        load: the mean fraction of the cards that would be allocated if each task were placed immediately.
        arrivals: the number of arrivals after the start.
        random: the random number generator for tasks and times.

    Raises:
        ConfigurationError: no task that requests cards has a lifetime.
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
