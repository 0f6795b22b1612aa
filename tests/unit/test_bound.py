"""The upper bound of bench/bound.py: on clusters so small that the most that can be allocated is plain."""

import importlib
from pathlib import Path
from random import Random

import pytest

from accelkit.simulator.replay import replay
from accelkit.simulator.trace import Task, TraceNode
from accelkit.simulator.workload import make_arrivals

BENCH = Path(__file__).parents[2] / "bench"
NODES = [TraceNode(f"n{number}", 8000, 100, 2, "T4") for number in range(3)]


def share(milli, *, cards=1, cpu=1, memory=1, models=()):
    return Task(cpu, memory, cards, milli, frozenset(models))


@pytest.fixture
def bound_cards(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    bound = importlib.import_module("bound")
    return lambda nodes, arrivals: bound.Program(nodes, arrivals).solve()


@pytest.mark.parametrize(
    ("arrivals", "most"),
    [
        ([share(600)] * 20, 6 * 0.6),  # one on each card
        ([share(600)] * 20 + [share(400)] * 4, 4 * 1.0 + 2 * 0.6),
        ([share(300)] * 2, 0.6),  # no more than came
        ([share(350)] * 4 + [share(300)] * 4, 4 * 0.35 + 4 * 0.3),
        ([share(350)] * 99 + [share(300)] * 99, 6 * 1.0),  # 350 + 350 + 300
        ([share(370)] * 99 + [share(300)] * 99, 6 * 0.97),  # 370 + 300 + 300
        ([share(1000, cards=2)] * 9, 6.0),
        ([share(1000, cards=3)] * 9, 0.0),
        ([share(1000, cards=2)] * 2 + [share(900)] * 9, 4 + 2 * 0.9),
        ([share(1000, cpu=8000)] * 9, 3.0),  # one on each host
        ([share(1000, memory=50)] * 2 + [share(500, memory=100)] * 9, 2 + 2 * 0.5),
        ([share(500, models=("V100",))] * 9, 0.0),
        ([share(500, models=("T4", "V100"))] * 20, 6.0),
    ],
)
def test_bound_equals_optimal_allocation_on_small_clusters(bound_cards, arrivals, most):
    assert bound_cards(NODES, arrivals) == pytest.approx(most, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_replay_does_not_exceed_bound(bound_cards, seed):
    random = Random(seed)  # noqa: S311 - the same on every run
    nodes = [TraceNode(f"n{number}", 32000, 9000, random.choice((1, 2, 8)), "T4") for number in range(20)]
    tasks = [share(random.choice((130, 270, 460, 810, 1000)), cpu=random.randrange(9000)) for _ in range(60)]
    tasks += [share(1000, cards=2, cpu=4000)] * 4
    found = replay(nodes, tasks, "fragmentation", seed=seed, load=1.1)
    arrivals = make_arrivals(tasks, found.cards, 1.1, Random(seed))  # noqa: S311 - those of the replay
    most = 100 * bound_cards(nodes, arrivals) / found.cards
    assert found.gpu_allocation_percent <= most <= 100.01
