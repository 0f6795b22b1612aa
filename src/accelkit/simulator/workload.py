"""Workload of tasks from a trace, in random order, that request a given fraction of all cards."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from accelkit.simulator.trace import WHOLE_MILLI, Task


def make_arrivals(tasks: Sequence[Task], cards: int, load: float, random: Random) -> list[Task]:
    """Return all tasks in random order, and repeat random tasks until the requests are `load` times the cards.

    If the requests exceed this amount without repetitions, omit random tasks. To make results comparable, this function
    uses the procedure of Weng et al., "Beware of Fragmentation" (USENIX ATC '23).

    Args:
        tasks: the tasks in the trace. Some of these tasks request cards.
        cards: the number of cards in the cluster.
        load: the total of the requests, relative to the number of cards.
        random: the random number generator for the selection and the order of the tasks.
    """
    arrivals, wanted = list(tasks), load * cards * WHOLE_MILLI
    demand = sum(task.demand_milli for task in arrivals)
    while demand < wanted:
        arrivals.append(random.choice(tasks))
        demand += arrivals[-1].demand_milli
    random.shuffle(arrivals)
    while demand > wanted and len(arrivals) > 1 and demand - arrivals[-1].demand_milli >= wanted:
        demand -= arrivals.pop().demand_milli
    return arrivals
