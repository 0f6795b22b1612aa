from datetime import UTC, datetime

import pytest
from ansible_collections.accelkit.kubernetes.plugins.module_utils import _inspection
from ansible_collections.accelkit.kubernetes.plugins.modules import memory_check, memory_info

from accelkit.audit import evidence
from accelkit.audit.comparison import AuditEvidence, AuditFinding
from accelkit.inspection.inspection import CardView, InspectedNode, ShareView, Totals, assemble
from accelkit.model.observed_allocations import Allocations, StrangeProcess

GIB = 2**30
ALLOCATIONS = Allocations("a", (), processes=())


def card(name, capacity, used, *pods):
    amounts = {"capacity_bytes": capacity * GIB, "used_bytes": used * GIB, "free_bytes": (capacity - used) * GIB}
    return CardView(
        id=name,
        vendor="v",
        model="m",
        memory_bytes=capacity * GIB,
        reserved_bytes=0,
        **amounts,
        used_compute=0,
        whole=False,
        health="healthy",
        known=True,
        shares=[ShareView("d", pod, pod, "c", 1, whole=False, compute=0, stage="bound") for pod in pods],
    )


def node(name, *cards):
    sums = [sum(getattr(c, key) for c in cards) for key in ("capacity_bytes", "used_bytes", "free_bytes")]
    return InspectedNode(name, "shared", "", GIB, list(cards), [], Totals(len(cards), *sums))


@pytest.fixture(autouse=True)
def _cluster(monkeypatch, stub):
    cluster = assemble(
        [node("a", card("a-0", 16, 4), card("a-1", 16, 14)), node("b", card("b-0", 16, 20, "p", "q"))], GIB
    )

    async def gather(_api, *, namespace, nodes, ledger):
        assert (namespace, ledger) == ("accelkit", None)
        names = nodes or ("a", "b")
        seen = [each for each in cluster.nodes if each.name in names]
        return AuditEvidence(assemble(seen, GIB), [], dict.fromkeys(names, ALLOCATIONS), None, {})

    stub(_inspection, "inspect_cluster", cluster)
    monkeypatch.setattr(evidence, "gather", gather)


def test_memory_info_returns_inspection_of_cluster(run_module):
    answer = run_module(memory_info, {})
    assert answer["changed"] is False
    assert answer["inspection"]["version"] == 1
    assert [each["name"] for each in answer["inspection"]["nodes"]] == ["a", "b"]
    assert answer["inspection"]["totals"]["cards"] == 3


def test_memory_info_of_one_node_has_totals_of_that_node(run_module):
    inspection = run_module(memory_info, {"node": ["b"]})["inspection"]
    assert [each["name"] for each in inspection["nodes"]] == ["b"]
    assert inspection["totals"] == {
        "cards": 1,
        "capacity_bytes": 16 * GIB,
        "used_bytes": 20 * GIB,
        "free_bytes": -4 * GIB,
    }


def test_memory_check_lists_each_card_over_capacity(run_module):
    answer = run_module(memory_check, {"wait_seconds": 0})
    assert answer["failed"]
    sentence = (
        "1 card is inconsistent: card b-0 of b has 16 GiB, but its shares use 20 GiB, held by d/p, d/q. Delete pods of "
    )
    assert answer["msg"].startswith(sentence)
    assert answer["findings"][0]["pods"] == ["d/p", "d/q"]
    assert [each["kind"] for each in answer["findings"]] == ["over_capacity"]


def test_memory_check_lists_each_card_with_too_little_free_memory(run_module):
    answer = run_module(memory_check, {"min_free": "4GiB", "wait_seconds": 0}, check=True)
    assert answer["msg"].startswith("2 cards are inconsistent: card a-1 of a has 2 GiB free, less than 4 GiB; card b-0")


def test_memory_check_passes_for_consistent_nodes(run_module):
    answer = run_module(memory_check, {"nodes": ["a"], "min_free": "2GiB"})
    assert not answer.get("failed")
    assert answer["findings"] == []
    assert answer["totals"]["cards"] == 2
    assert answer["differences"] == []
    assert answer["notes"] == ["the ledger is not compared, because it was not requested"]


def test_memory_check_lists_differences_of_kubelet_allocation(run_module, stub):
    strange = Allocations("a", (), (StrangeProcess("a-0", 7, "miner"),))
    stub(evidence, "gather", AuditEvidence(assemble([node("a")], GIB), [], {"a": strange}, None, {}))
    answer = run_module(memory_check, {"nodes": ["a"], "wait_seconds": 0})
    sentence = "process 7 (miner) uses card a-0 of a and does not belong to a pod"
    assert answer["msg"] == f"the observed allocation is inconsistent: {sentence}"
    assert [each["kind"] for each in answer["differences"]] == ["strange_process"]
    assert "differences" not in run_module(memory_check, {"nodes": ["a"], "allocations": False})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": ["c"]}, "cannot find a node with cards named c; choose among a, b"),
        ({"min_free": "lots"}, "'lots' is not a valid size; write it as"),
        ({"kubeconfig": "/nowhere/config"}, "cannot read kubeconfig /nowhere/config"),
    ],
)
def test_invalid_input_is_rejected_with_one_sentence(run_module, arguments, message):
    answer = run_module(memory_check, arguments)
    assert message in answer["msg"]
    assert "exception" not in answer


def test_temporary_overcommit_is_not_a_finding(run_module, stub):
    settled = assemble([node("b", card("b-0", 16, 16))], GIB)
    stub(evidence, "gather", AuditEvidence(settled, [], {"b": ALLOCATIONS}, None, {}))
    assert not run_module(memory_check, {"nodes": ["b"]}).get("failed")


def test_memory_check_ignores_kinds_that_are_not_selected(run_module):
    assert not run_module(memory_check, {"kinds": ["unassigned_pod"], "wait_seconds": 0}).get("failed")
    assert run_module(memory_check, {"kinds": ["over_capacity"], "wait_seconds": 0})["failed"]


def test_pods_bound_without_extender_are_listed_with_next_step(run_module, stub):
    began = datetime(2026, 1, 1, tzinfo=UTC)
    found = AuditFinding("a", "", "d/p", "bound_past_extender", "pod d/p was bound to a without the extender")
    stub(_inspection, "find_run_start", began)
    asked = stub(_inspection, "find_bypassing", [found])
    answer = run_module(memory_check, {"nodes": ["a"], "bypassing": True})
    assert asked == [((began,), {})]
    assert answer["msg"].startswith(
        "the scheduling is inconsistent: pod d/p was bound to a without the extender. A pod that was bound without the "
        "extender may use a card that other pods need: delete it"
    )
    assert [each["kind"] for each in answer["differences"]] == ["bound_past_extender"]
    assert not run_module(memory_check, {"nodes": ["a"]}).get("failed")
