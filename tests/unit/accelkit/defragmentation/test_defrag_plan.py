import pytest
from click.testing import CliRunner
from planned_cluster import MEMORY, PlannedCluster, told
from rich.console import Console

from accelkit.cli import main
from accelkit.defragmentation.table import build_plan_table
from accelkit.errors import ServiceError


@pytest.fixture
def world():
    return PlannedCluster()


async def test_pod_of_equal_priority_is_moved_if_another_node_has_room(world):
    world.node("n")
    world.node("m", 1)
    world.pod("p", 5, card="n-0")
    world.pod("q", 3, card="n-1")
    world.pod("r", 4, card="m-0")
    world.pod("new", 8)
    plan = await world.plan()
    # Of two pods that may be moved, the one that holds the least.
    assert told(plan) == [("new", "n", [("q", "m")])]
    assert (plan.evictions, plan.left_out) == (1, ())


async def test_pod_that_fits_on_no_other_node_is_evicted_only_for_higher_priority(world):
    world.node("n", 1)
    world.pod("p", 5, 1, card="n-0")
    world.pod("equal", 5, 1)
    world.pod("high", 5, 2)
    world.pod("kind", 5, 3, spec={"preemptionPolicy": "Never"})
    plan = await world.plan()
    assert told(plan) == [("high", "n", [("p", "")])]
    assert [each.pod for each in plan.left_out] == ["kind", "equal"]


async def test_each_pod_is_planned_on_result_of_previous_steps(world):
    world.node("n")
    world.pod("p", 5, 1, card="n-0")
    world.pod("first", 8, 9)
    world.pod("second", 8, 8)
    world.pod("third", 1, 7)
    plan = await world.plan()
    assert told(plan) == [("first", "n", []), ("second", "n", [("p", "")])]
    assert [each.pod for each in plan.left_out] == ["third"]


@pytest.mark.parametrize(
    ("of", "rule"),
    [
        ({"owner": None}, "no controller would replace it"),
        ({"owner": {"kind": "Node", "controller": True}}, "no controller would replace it"),
        ({"owner": {"kind": "ReplicaSet"}}, "no controller would replace it"),
        ({"labels": {"app": "x"}}, "PodDisruptionBudget b1 protects it"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "it is already being deleted"),
        ({"priority": 9}, "its priority is higher"),
        ({"priority": 5}, "its priority is not lower, so it may only move to another node"),
    ],
)
async def test_unreplaceable_or_protected_pods_are_not_evicted(world, of, rule):
    world.node("n", 1)
    world.budget({"app": "x"})
    world.pod("p", 5, **{"priority": 1, "card": "n-0"} | of)
    world.pod("high", 5, 5)
    plan = await world.plan()
    assert told(plan) == []
    assert f"no permitted evictions would free its cards (d/p: {rule}" in plan.left_out[0].reason


async def test_disruption_budget_applies_to_whole_plan(world):
    world.node("n")
    world.budget({"app": "x"}, 1)
    for place in range(2):
        world.pod(f"p{place}", 5, 1, card=f"n-{place}", labels={"app": "x"})
        world.pod(f"high{place}", 5, 5)
    plan = await world.plan()
    assert [(step.pod, len(step.evictions)) for step in plan.steps] == [("high0", 1)]


@pytest.mark.parametrize(
    ("node", "pod"),
    [
        (
            {"spec": {"taints": [{"key": "k", "value": "5", "effect": "NoSchedule"}]}},
            {"tolerations": [{"key": "k", "operator": "Gt", "value": "5"}]},
        ),
        ({"spec": {"unschedulable": True}}, {}),
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, {}),
        ({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoExecute"}]}}, {"tolerations": [{"key": "k"}]}),
        ({}, {"nodeSelector": {"a": "b"}}),
        ({"cpu": "500m"}, {}),
    ],
)
async def test_unsuitable_node_is_not_freed_for_pod(world, node, pod):
    world.node("n", 1, **node)
    world.pod("high", 5, 5, spec=pod)
    plan = await world.plan()
    assert told(plan) == []
    assert "no node is suitable" in plan.left_out[0].reason


async def test_plan_respects_tolerations_and_node_selectors(world):
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}]
    world.node("n", 1, spec={"unschedulable": True, "taints": taints}, labels={"a": "b"})
    tolerations = [{"key": "k", "value": "v"}, {"operator": "Exists", "key": "node.kubernetes.io/unschedulable"}]
    world.pod("new", 5, spec={"nodeSelector": {"a": "b"}, "tolerations": tolerations})
    assert told(await world.plan()) == [("new", "n", [])]


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"affinity": {"podAffinity": {}}}, "affinity"),
        ({"topologySpreadConstraints": [{}]}, "topologySpreadConstraints"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "volumes"),
        (
            {"containers": [{"name": "c", "ports": [{"hostPort": 1}], "resources": {"limits": {MEMORY: "5"}}}]},
            "hostPort",
        ),
        ({"containers": [{"name": "c", "resources": {"limits": {MEMORY: "5", "x/y": "1"}}}]}, "other resources"),
    ],
)
async def test_pod_with_rules_only_kube_scheduler_evaluates_is_not_planned(world, spec, word):
    world.node("n", 1)
    world.pod("new", 5, spec=spec)
    plan = await world.plan()
    assert told(plan) == []
    assert plan.left_out[0].reason == f"only kube-scheduler can evaluate its {word}"


async def test_plan_respects_maximum_number_of_evictions(world):
    world.node("n", 1)
    world.pod("p", 4, 1, card="n-0")
    world.pod("q", 4, 1, card="n-0")
    world.pod("high", 8, 5)
    plan = await world.plan(most=1)
    assert (plan.steps, plan.evictions) == ((), 0)
    assert "2 more" in plan.left_out[0].reason
    assert (await world.plan(most=2)).evictions == 2


async def test_cluster_without_cards_is_rejected():
    with pytest.raises(ServiceError, match="no node shares cards"):
        await PlannedCluster().plan()


async def test_plan_table_shows_evictions_and_pods_that_still_wait(world):
    world.node("n", 1)
    world.pod("p", 5, 1, card="n-0")
    world.pod("high", 5, 5)
    world.pod("other", 5, 1)
    plan = await world.plan()
    console = Console(width=200)
    with console.capture() as captured:
        console.print(build_plan_table(plan))
    text = captured.get()
    assert "d/high (priority 5) would fit on n" in text
    assert "evict d/p (priority 1): its replacement fits on no node" in text
    assert "d/other (priority 1) would still wait" in text


@pytest.mark.parametrize("arguments", [["--plan", "--apply"], ["--yes"]])
def test_contradictory_options_are_rejected(arguments):
    assert CliRunner().invoke(main, ["defrag", *arguments]).exit_code == 2
