"""Tasks that leave: who runs at the beginning, who waits, and for how long."""

import json
from random import Random
from statistics import mean

import pytest
from click.testing import CliRunner
from small_trace import TASKS, write_trace

from accelkit.cli import main
from accelkit.errors import ConfigurationError
from accelkit.simulator.cluster import Cluster
from accelkit.simulator.rankings import RANKINGS
from accelkit.simulator.stays import Stay, draw_lifetimes, make_stays
from accelkit.simulator.trace import Task, TraceNode, read_lifetimes
from accelkit.simulator.turnover import replay_turnover
from accelkit.simulator.waiting import WaitingTasks

HALF, WHOLE, PAIR = Task(1000, 10, 1, 500), Task(1000, 10, 1, 1000), Task(1000, 10, 2, 1000)
NODES = [TraceNode("a", 64000, 1000, 2, "T4"), TraceNode("b", 64000, 1000, 4, "V100")]
TIMED = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time
t0,1000,1024,1,500,,100,160
t1,1000,1024,1,1000,T4,5,5
"""


def drawn(seed):
    return Random(seed)  # noqa: S311 - the same on every run


def test_lifetimes_are_parsed(tmp_path):
    _, tasks = write_trace(tmp_path, tasks=TIMED)
    assert read_lifetimes(tasks) == [60, 0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TASKS, "has no column creation_time, deletion_time; set --lifetimes to a list with these columns"),
        (TIMED.replace("100,160", "160,100"), "line 2: deletion_time is before creation_time"),
        (TIMED.replace("100,160", ",160"), "line 2: creation_time must be an integer"),
        (TIMED.splitlines()[0], "has no tasks; set a list of tasks with their times"),
    ],
)
def test_invalid_lifetimes_are_refused(tmp_path, text, sentence):
    _, tasks = write_trace(tmp_path, tasks=text)
    with pytest.raises(ConfigurationError, match=sentence):
        read_lifetimes(tasks)


def test_lifetimes_are_sampled_from_another_list():
    drawn_ones = draw_lifetimes([7, 8], 50, 1)
    assert drawn_ones == draw_lifetimes([7, 8], 50, 1)
    assert len(drawn_ones) == 50
    assert set(drawn_ones) == {7, 8}


def test_initial_load_equals_later_load():
    # The rare task lives long: it is half of what runs, and seldom comes.
    stays = make_stays([HALF] * 9 + [PAIR], [10.0] * 9 + [90.0], 1000, load=0.8, arrivals=20_000, random=drawn(3))
    first = [stay for stay in stays if stay.arrives == 0]
    later = [stay for stay in stays if stay.arrives]
    ends = stays[-1].arrives
    for time in (0.0, ends / 3, ends * 0.9):
        there = sum(stay.task.demand_milli for stay in stays if stay.arrives <= time < stay.arrives + stay.lasts)
        assert there == pytest.approx(800_000, rel=0.15)
    assert len(later) == 20_000
    assert mean(stay.task == PAIR for stay in first) == pytest.approx(0.5, abs=0.1)
    assert mean(stay.task == PAIR for stay in later) == pytest.approx(0.1, abs=0.02)
    # Of those that run a random part is over.
    assert mean(stay.lasts for stay in first if stay.task == PAIR) == pytest.approx(45, rel=0.15)
    assert {stay.lasts for stay in later} == {10.0, 90.0}
    one, two = (make_stays([HALF], [1.0], 10, load=0.8, arrivals=9, random=drawn(3)) for _ in range(2))
    assert one == two


def test_oldest_waiting_task_that_fits_node_is_placed_first():
    cluster = Cluster(NODES)
    only = Task(1000, 10, 1, 500, frozenset({"V100"}))
    waiting = WaitingTasks(cluster, [PAIR, HALF, WHOLE, only, PAIR])
    for when, task in enumerate((only, PAIR, HALF, WHOLE, HALF)):
        waiting.put(Stay(task, when, 1.0))
    cluster.place(HALF, 0, "binpack")
    # On the first node one card is begun: the pair does not fit, and one task is bound to the other model.
    taken = [waiting.take_fitting(0) for _ in range(2)]
    assert [stay.arrives for stay in taken] == [2, 3]
    for _ in range(3):
        cluster.place(WHOLE, 1, "binpack")
    cluster.place(HALF, 1, "binpack")
    assert [stay.arrives for stay in (waiting.take_fitting(1), waiting.take_fitting(1))] == [0, 4]
    assert waiting.take_fitting(1) is None
    assert [stay.arrives for stay in waiting.list_all()] == [1]
    assert len(waiting) == 1


def test_departed_task_releases_its_resources():
    cluster = Cluster(NODES)
    uid = cluster.place(PAIR, 1, "binpack")
    before = cluster.used_milli
    cluster.remove(uid, PAIR, 1)
    assert (before, cluster.used_milli) == (2000, 0)
    assert cluster.measure_host([1]) == ([64000], [1000])
    assert len(cluster.ledger) == 0


@pytest.mark.parametrize("policy", RANKINGS)
def test_all_tasks_are_placed_immediately_when_capacity_suffices(policy):
    found = replay_turnover(NODES, [HALF], [60], policy, seed=1, load=0.3, arrivals=200)
    assert found.time_weighted_allocation_percent == pytest.approx(found.gpu_arrived_percent, abs=0.01)
    assert found.gpu_arrived_percent == pytest.approx(30, abs=6)
    assert (found.refused, found.never_placed, found.had_to_wait, found.pending_most) == (0, 0, 0, 0)
    assert (found.waited_p99_s, found.pending_mean) == (0, 0)
    assert all(one == two for one, two in found.curve)


def test_tasks_without_capacity_wait_and_are_placed_later():
    found = replay_turnover(NODES, [HALF, PAIR], [60, 60], "binpack", seed=1, load=2.0, arrivals=400)
    assert 90 < found.time_weighted_allocation_percent <= 100
    assert found.gpu_arrived_percent > 150
    assert found.never_placed == found.refused == found.arrivals - found.placed > 0
    assert found.pending_most >= found.never_placed > 0
    assert 0 < found.pending_mean < found.pending_most
    assert found.had_to_wait > 0
    assert 0 < found.waited_p50_s < found.waited_p99_s <= 2 * 3600 * found.measured_hours


def test_same_seed_reproduces_same_replay():
    one, two = (
        replay_turnover(NODES, [HALF, PAIR], [9, 60], "random", seed=5, load=1.1, arrivals=100) for _ in range(2)
    )
    assert (one.curve, one.waited_p99_s) == (two.curve, two.waited_p99_s)


def test_empty_workload_is_refused():
    with pytest.raises(ConfigurationError, match="the workload is empty"):
        replay_turnover(NODES, [Task(1, 1, 0, 0)], [60], "binpack", seed=1, load=0.9, arrivals=5)


def test_simulate_command_reports_turnover_when_lifetimes_are_set(tmp_path):
    nodes, tasks = write_trace(tmp_path, tasks=TIMED)
    command = ["simulate", "--nodes", nodes, "--pods", tasks, "--policy", "fragmentation"]
    without = json.loads(CliRunner().invoke(main, [*map(str, command), "-o", "json"], catch_exceptions=False).stdout)
    command = [*map(str, command), "--lifetimes", str(tasks), "--arrivals", "50"]
    found = json.loads(CliRunner().invoke(main, [*command, "-o", "json"], catch_exceptions=False).stdout)
    assert found["load"] == 0.95
    assert found.keys() - without.keys() == {
        "time_weighted_allocation_percent",
        "measured_hours",
        "pending_mean",
        "pending_most",
        "had_to_wait",
        "waited_p50_s",
        "waited_p99_s",
        "never_placed",
    }
    assert without.keys() <= found.keys()
    # The lifetimes of another list: the same ones drawn for the tasks.
    (tmp_path / "other.csv").write_text(TIMED.replace("100,160", "100,101"))
    other = [*command[:-3], str(tmp_path / "other.csv"), "--arrivals", "50", "-o", "json"]
    drawn_ones = json.loads(CliRunner().invoke(main, other, catch_exceptions=False).stdout)
    assert 0 < drawn_ones["measured_hours"] < found["measured_hours"] / 10
    table = CliRunner().invoke(main, command, catch_exceptions=False).stdout
    assert f"{found['time_weighted_allocation_percent']:.2f} % of the cards over" in table
    assert f"{found['never_placed']} pods were never placed" in table
