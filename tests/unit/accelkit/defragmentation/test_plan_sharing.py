"""What pods say of sharing cards, and what an administrator does, holds in a plan, too."""

import json

import pytest
from click.testing import CliRunner
from planned_cluster import PlannedCluster, told

from accelkit.cli import main


@pytest.fixture
def world():
    return PlannedCluster()


def by(**labels):
    return {"accelkit.io/request": json.dumps({"c": {"apart": {"matchLabels": labels}}})}


async def test_pod_keeps_its_labels_in_plan_after_rejected_trial_eviction(world):
    world.node("n", 1)
    world.pod("p", 5, 1, card="n-0", labels={"app": "x"})
    # p would leave for it, and be moved nowhere.
    world.pod("kind", 8, 9, spec={"preemptionPolicy": "Never"})
    world.pod("apart", 3, 0, annotations=by(app="x"))
    plan = await world.plan()
    assert told(plan) == []
    assert [each.pod for each in plan.left_out] == ["kind", "apart"]


async def test_labels_of_planned_pod_apply_to_later_pods_in_plan(world):
    world.node("n", 1)
    world.pod("first", 5, 9, labels={"app": "x"})
    world.pod("apart", 3, 0, annotations=by(app="x"))
    plan = await world.plan()
    assert told(plan) == [("first", "n", [])]


async def test_eviction_does_not_help_pod_that_exceeds_quota(world):
    world.node("n")
    world.pod("p", 5, 1, card="n-0")
    world.pod("new", 5, 9)
    assert told(await world.plan()) == [("new", "n", [])]
    plan = await world.plan(rules={"quotas": [{"namespaces": ["d"], "memory": "8"}]})
    assert told(plan) == []
    assert "quota" in plan.left_out[0].reason


async def test_reserved_cards_are_neither_assigned_nor_freed(world):
    world.node("n")
    world.pod("p", 8, 1, card="n-1")
    world.pod("new", 5, 9)
    assert told(await world.plan()) == [("new", "n", [])]
    reserved = {"name": "r", "cards": [{"nodes": ["n"]}], "for": [{"namespaces": ["other"]}]}
    plan = await world.plan(rules={"reservations": [reserved]})
    assert told(plan) == []
    # Nor is anybody moved to one.
    world.node("m")
    world.pod("filler", 8, 20, card="m-1")
    world.pod("q", 5, 9, card="m-0")
    plan = await world.plan(rules={"reservations": [reserved]})
    assert told(plan) == []


@pytest.mark.parametrize(
    "of",
    [
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "g"}},
        {"spec": {"schedulingGroup": {"podGroupName": "g"}}},
    ],
)
async def test_member_of_pod_group_is_not_planned(world, of):
    world.node("n", 1)
    world.pod("p", 5, 1, card="n-0")
    world.pod("member", 5, 9, **of)
    plan = await world.plan()
    assert told(plan) == []
    assert "belongs to a pod group" in plan.left_out[0].reason


GAS = {"limits": {"gpu.intel.com/i915": "1", "gpu.intel.com/memory.max": "8"}}


async def test_cards_held_by_pods_of_other_dialects_count_as_used(world):
    world.node("n", 1)
    world.pod("theirs", 8, 20, card="n-0", **GAS)
    world.pod("new", 8, 9)
    plan = await world.plan()
    assert told(plan) == []
    assert told(await world.plan(dialects=("gas", "native"))) == []
    # Who says that the extender does not read them gets what it does.
    assert told(await world.plan(dialects=("native",))) == [("new", "n", [])]


async def test_request_in_unused_dialect_is_not_planned(world):
    world.node("n", 1)
    world.pod("new", 8, 9, **GAS)
    plan = await world.plan()
    assert (plan.steps, plan.left_out) == ((), ())
    world.pod("mixed", 8, 9, limits={"accelkit.io/memory": "8", **GAS["limits"]})
    plan = await world.plan()
    assert [(each.pod, each.reason) for each in plan.left_out] == [
        ("mixed", "only kube-scheduler can evaluate its other resources")
    ]
    assert [step.pod for step in (await world.plan(dialects=("gas",))).steps] == ["new"]


def test_unreadable_sharing_rules_are_named_in_error(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("quotas: 5")
    result = CliRunner().invoke(main, ["defrag", "--sharing-rules", str(path)])
    assert (result.exit_code, str(path) in result.output) == (1, True)
