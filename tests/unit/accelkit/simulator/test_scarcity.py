"""When the costs of `fragmentation` take note of what has become scarce."""

from __future__ import annotations

import numpy as np

from accelkit.ledger.priorities import FragmentationCosts
from accelkit.placement.mix import TaskMix
from accelkit.simulator.cluster import Cluster, make_type
from accelkit.simulator.trace import Task, TraceNode

HALF, PAIR, FOUR = Task(1000, 10, 1, 500), Task(1000, 10, 2, 1000), Task(1000, 10, 4, 1000)


def test_what_is_scarce_is_looked_at_anew_as_the_cluster_fills():
    cluster = Cluster([TraceNode(f"n{number}", 64000, 1000, 4 - number % 3, "T4") for number in range(60)])
    mix = TaskMix()
    for task in (HALF, PAIR, FOUR, HALF):
        mix.observe(make_type(task))
    costs, rows = FragmentationCosts(cluster.ledger.table, mix), np.arange(60)

    def agrees_with_one_that_looks_now():
        new = FragmentationCosts(cluster.ledger.table, mix).measure(make_type(HALF), rows)
        return bool(np.array_equal(costs.measure(make_type(HALF), rows), new))

    assert agrees_with_one_that_looks_now()
    # Each place changes a node twice: its cards, and its host.
    for row in range(40):
        cluster.place(HALF, row, "binpack")
    assert not agrees_with_one_that_looks_now()
    for row in range(40):
        cluster.place(HALF, row, "binpack")
    assert agrees_with_one_that_looks_now()
