"""What pods say of sharing cards, and what an administrator does, holds in a plan, too."""

from __future__ import annotations

import pytest
from planned_cluster import PlannedCluster, told


@pytest.fixture
def world():
    return PlannedCluster()


def by(**labels):
    return {"c": {"apart": {"matchLabels": labels}}}


async def test_who_was_tried_to_leave_and_stays_is_still_known_by_its_labels(world):
    world.node("n", 1)
    world.pod("p", 5, 1, card="n-0", labels={"app": "x"})
    # p would leave for it, and be moved nowhere.
    world.pod("kind", 8, 9, spec={"preemptionPolicy": "Never"})
    world.pod("apart", 3, 0, request=by(app="x"))
    plan = await world.plan()
    assert told(plan) == []
    assert [each.pod for each in plan.left_out] == ["kind", "apart"]


async def test_who_gets_in_by_the_plan_is_known_by_its_labels(world):
    world.node("n", 1)
    world.pod("first", 5, 9, labels={"app": "x"})
    world.pod("apart", 3, 0, request=by(app="x"))
    plan = await world.plan()
    assert told(plan) == [("first", "n", [])]
