"""Makes a workload of tasks that leave again: so many at a time that they ask for a stated part of all cards.

Tasks come at random and evenly (a Poisson process), each as one of the trace with its lifetime. By Little's law the
mean demand is then the rate times the mean of demand and lifetime together, so the load decides the rate. Lifetimes of
real traces reach from seconds to months, and an empty cluster would take as long to fill; so the workload begins with
what would be running at a random moment: tasks drawn in proportion to their lifetimes, of which a random part is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from accelkit.errors import ConfigurationError
from accelkit.simulator.trace import WHOLE_MILLI, Task


class Stay(NamedTuple):
    """One task that comes and leaves.

    Attributes:
        arrives: seconds after the beginning.
        lasts: seconds from when it is placed to when it leaves.
    """

    task: Task
    arrives: float
    lasts: float


def draw_lifetimes(lifetimes: Sequence[float], tasks: int, seed: int) -> list[float]:
    """Return a lifetime for each of so many tasks, drawn from those of another list."""
    return Random(seed).choices(lifetimes, k=tasks)  # noqa: S311 - a workload is no secret


def make_stays(
    tasks: Sequence[Task], lifetimes: Sequence[float], cards: int, *, load: float, arrivals: int, random: Random
) -> list[Stay]:
    """Return who runs at the beginning, in random order, and after them who comes.

    Args:
        tasks: some of them ask for cards.
        lifetimes: of these tasks, in seconds.
        cards: of the cluster.
        load: what would be allocated on average if everything were placed at once, as a part of these.
        arrivals: how many come after the beginning.
        random: decides who comes, and when.

    Raises:
        ConfigurationError: no task with a card lives for any time.
    """
    lasts = np.maximum(np.array(lifetimes, dtype=np.float64), 1.0)
    work = float((np.array([task.demand_milli for task in tasks]) * lasts).mean())
    if not work or not arrivals:
        raise ConfigurationError("there is nothing to come", next_step="give a list with tasks, and --arrivals above 0")
    generator = np.random.default_rng(random.getrandbits(64))
    rate = load * cards * WHOLE_MILLI / work
    first = generator.choice(len(tasks), size=generator.poisson(rate * lasts.mean()), p=lasts / lasts.sum())
    left = lasts[first] * generator.random(len(first))
    stays = [Stay(tasks[each], 0.0, float(rest)) for each, rest in zip(first, left, strict=True)]
    times = np.cumsum(generator.exponential(1 / rate, arrivals))
    come = generator.integers(len(tasks), size=arrivals)
    return stays + [Stay(tasks[each], float(time), float(lasts[each])) for each, time in zip(come, times, strict=True)]
