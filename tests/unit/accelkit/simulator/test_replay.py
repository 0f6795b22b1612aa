"""Workloads and replays on small traces."""

import json
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner
from small_trace import write_trace

from accelkit.cli import main
from accelkit.errors import ConfigurationError
from accelkit.ledger.priorities import FragmentationCosts
from accelkit.placement.mix import TaskMix
from accelkit.simulator.cluster import Cluster, make_type
from accelkit.simulator.rankings import RANKINGS, make_ranking
from accelkit.simulator.replay import replay
from accelkit.simulator.trace import Task, TraceNode
from accelkit.simulator.workload import make_arrivals

HALF, WHOLE, PAIR, NONE = Task(1000, 10, 1, 500), Task(1000, 10, 1, 1000), Task(1000, 10, 2, 1000), Task(1000, 10, 0, 0)
NODES = [TraceNode("a", 8000, 1000, 2, "T4"), TraceNode("b", 8000, 1000, 4, "V100")]


def drawn(seed):
    return Random(seed)  # noqa: S311 - the same on every run


def demand(arrivals):
    return sum(task.demand_milli for task in arrivals)


def test_arrivals_match_requested_load_and_seed():
    tasks = [HALF, WHOLE, PAIR, NONE]
    arrivals = make_arrivals(tasks, 100, 1.3, drawn(1))
    assert 130_000 <= demand(arrivals) < 132_000
    assert set(arrivals) == set(tasks)
    assert arrivals == make_arrivals(tasks, 100, 1.3, drawn(1)) != make_arrivals(tasks, 100, 1.3, drawn(2))


def test_arrivals_are_sampled_when_trace_exceeds_load():
    arrivals = make_arrivals([HALF] * 100, 10, 1.0, drawn(1))
    assert demand(arrivals) == 10_000


@pytest.mark.parametrize("policy", RANKINGS)
def test_every_policy_fills_cluster_and_counts_placements(policy):
    found = replay(NODES, [HALF], policy, seed=1, load=2.0)
    assert (found.cards, found.gpu_allocation_percent, found.gpu_arrived_percent) == (6, 100.0, 200.0)
    assert (found.arrivals, found.placed, found.refused) == (24, 12, 12)
    assert found.curve[0] == (0.0, 0.0)
    assert found.curve[-1] == (2.0, 1.0)
    assert found.decisions_per_second > 0
    assert 0 < found.decision_p50_ms <= found.decision_p99_ms


def test_card_model_and_host_resources_limit_eligible_nodes():
    cluster = Cluster(NODES)
    assert cluster.find_rows(Task(1000, 10, 1, 500, frozenset({"V100"}))).tolist() == [1]
    assert cluster.find_rows(Task(9000, 10, 1, 500)).tolist() == []
    assert cluster.find_rows(Task(1000, 1001, 1, 500)).tolist() == []
    for _ in range(8):
        cluster.place(NONE, 0, policy="binpack")
    assert cluster.find_rows(HALF).tolist() == [1]


def test_ledger_contains_placed_tasks():
    cluster = Cluster(NODES)
    cluster.place(HALF, 1, "binpack")
    cluster.place(PAIR, 1, "binpack")
    assert cluster.used_milli == 2500
    entry = cluster.ledger.find_node("b")
    assert sorted(state.free_bytes // 2**20 for state in entry.list_card_states()) == [0, 0, 500, 1000]


def test_fragmentation_policy_prefers_partly_used_card():
    cluster = Cluster(NODES)
    cluster.place(HALF, 1, "binpack")
    ranking = make_ranking("fragmentation", cluster, [HALF, WHOLE], drawn(1))
    for task in (WHOLE, HALF, WHOLE, HALF):
        ranking.note(task)
    costs = ranking.rank(HALF, cluster.find_rows(HALF))
    assert costs.argmin() == 1


def test_fgd_policy_fills_card_whose_remainder_is_unusable():
    tasks = [Task(1000, 10, 1, 300)] + 10 * [WHOLE]
    cluster = Cluster(NODES)
    cluster.place(tasks[0], 1, "binpack")
    ranking = make_ranking("fgd", cluster, tasks, drawn(1))
    assert ranking.rank(tasks[0], cluster.find_rows(tasks[0])).argmin() == 1


def test_invalid_load_is_refused():
    for load in (0.0, -1.0, 1e9, float("nan")):
        with pytest.raises(
            ConfigurationError, match=r"cannot replay a load of .*; set a part of all cards, such as 1\.3"
        ):
            replay(NODES, [HALF], "binpack", seed=1, load=load)


def test_simulate_command_prints_json_and_table(tmp_path):
    nodes, tasks = write_trace(tmp_path)
    command = ["simulate", "--nodes", str(nodes), "--pods", str(tasks), "--policy", "fragmentation", "--seed", "7"]
    done = CliRunner().invoke(main, [*command, "-o", "json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert {"gpu_allocation_percent", "decisions_per_second", "decision_p50_ms", "decision_p99_ms"} <= found.keys()
    assert (found["policy"], found["seed"], found["load"], found["nodes"], found["cards"]) == (
        "fragmentation",
        7,
        1.3,
        3,
        6,
    )
    table = CliRunner().invoke(main, command, catch_exceptions=False).stdout
    assert f"{found['gpu_allocation_percent']:.2f} % of the cards, to {found['placed']} pods" in table
    assert "6 on 3 nodes" in table


def test_invalid_trace_file_is_reported_on_one_line(tmp_path):
    nodes, _ = write_trace(tmp_path)
    done = CliRunner().invoke(main, ["simulate", "--nodes", str(nodes), "--pods", str(nodes), "--policy", "fgd"])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {nodes} has no column num_gpu, gpu_milli")


def test_fragmentation_scarcity_is_remeasured_as_cluster_fills():
    cluster = Cluster([TraceNode(f"n{number}", 64000, 1000, 4 - number % 3, "T4") for number in range(60)])
    mix = TaskMix()
    for task in (HALF, PAIR, Task(1000, 10, 4, 1000), HALF):
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
