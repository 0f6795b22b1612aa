"""Workload of a trace's tasks that request a given part of all cards, in random order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from accelkit.simulator.trace import WHOLE_MILLI, Task


def make_arrivals(tasks: Sequence[Task], cards: int, load: float, random: Random) -> list[Task]:
    """Return all tasks, and more of them drawn at random, until they request `load` times the cards; shuffled.

    If the tasks request more by themselves, random ones are dropped. This is the procedure of Weng et al., "Beware of
    Fragmentation" (USENIX ATC '23), so that results can be compared.

    Args:
        tasks: the tasks of the trace; some of them request cards.
        cards: the number of cards of the cluster.
        load: requested cards as a part of these.
        random: the source of the mix and the order.
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
