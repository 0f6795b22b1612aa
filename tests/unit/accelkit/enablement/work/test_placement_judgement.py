"""What the way of a check pod says of kube-scheduler, the extender and its ledger."""

import asyncio

import pytest
from check_results import PASSED, evidence, outcomes

from accelkit.enablement.work import run
from accelkit.errors import ServiceError
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.stage import Stage

GIB = 2**30


@pytest.mark.parametrize(
    ("said", "free", "expected"),
    [
        (
            "0/2: 1 node(s) had a refusal",
            16 * GIB,
            (("unknown", "NotPlaced"), ("fail", "Unschedulable")),
        ),
        ("0/2: 1 Insufficient cpu", 16 * GIB, (("unknown", "HostFull"),) * 2),
        ("0/2: 1 Too many pods", 16 * GIB, (("unknown", "HostFull"),) * 2),
        ("0/2: insufficient accelkit.io/memory in one card", 0, (("unknown", "NoFreeShare"),) * 2),
    ],
)
async def test_cause_of_failed_placement_determines_outcome(check_one, said, free, expected):
    def refuse(cluster, node, pod):
        # As where another pod has taken the last share meanwhile.
        cluster.free[node] = free
        cluster.condition(pod, "Unschedulable", said)

    found = await check_one(refuse)
    assert outcomes(found) == expected
    assert said in evidence(found, Stage.EXTENDER_CHECK)


async def test_pod_placed_before_deadline_passes(cluster, check_one, monkeypatch):
    monkeypatch.setattr(run, "PATIENCE_SECONDS", 5)

    def place_late(cluster, node, pod):
        cluster.condition(pod, "Unschedulable", "0/1 nodes are available")

        def place():
            cluster.run_well(node, pod)

        asyncio.get_running_loop().call_later(0.03, place)

    assert outcomes(await check_one(place_late)) == PASSED


async def test_pod_that_no_scheduler_tried_is_unknown(check_one):
    assert outcomes(await check_one(lambda *_: None)) == (("unknown", "NotTried"),) * 2


async def test_pod_bound_without_assignment_fails_extender_check(check_one):
    found = await check_one(lambda cluster, node, pod: cluster.run_well(node, pod, assigned=False))
    assert outcomes(found)[1] == ("fail", "NoAssignment")


async def test_assignment_written_later_by_agent_does_not_count(cluster, check_one):
    def bind_bare(cluster, node, pod):
        cluster.bind(node, pod, assigned=False)

        def write():
            cluster.run_well(node, pod)

        asyncio.get_running_loop().call_later(0.2, write)

    assert outcomes(await check_one(bind_bare))[1] == ("fail", "NoAssignment")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"version": 1, "containers": {}}',
        '{"version": 1, "containers": {"check": [{"card": "x", "memory_bytes": -1}]}}',
    ],
)
async def test_invalid_assignment_fails_extender_check(check_one, text):
    def bind_badly(cluster, node, pod):
        cluster.bind(node, pod)
        pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION] = text

    assert outcomes(await check_one(bind_badly))[1] == ("fail", "AssignmentUnreadable")


@pytest.mark.parametrize("counted", [None, 2 * GIB])
async def test_different_ledger_amount_fails_extender_check(cluster, check_one, counted):
    cluster.counted["a"] = counted
    assert outcomes(await check_one()) == (("pass", ""), ("fail", "LedgerDiffers"))


async def test_unavailable_extender_is_unknown(cluster, check_one):
    cluster.ledger_error = ServiceError("no way to it")
    found = await check_one()
    assert outcomes(found) == (("pass", ""), ("unknown", "LedgerUnread"))
    assert "no way to it" in evidence(found, Stage.EXTENDER_CHECK)
