import pytest

from accelkit.extender.foreign_inspect import make_foreign_inspects
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind

GIB = 2**30
CREATED = "2022-09-06T07:40:43Z"


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("n", Inventory(GIB, tuple(Card(f"id-{n}", "v", "m", 16 * GIB, minor=n) for n in range(2))))
    ledger.put_node("plain", None)
    pod = PodRef("kube-system", "gcushare-pod-1", "2713cdab")
    ledger.confirm(pod, "n", Assignment({"c": (Share("id-0", 4 * GIB, 333),)}), [("c", Kind.APP)])
    return ledger


def answers(*dialects):
    return make_foreign_inspects(dialects, lambda _uid: CREATED)


def test_gcushare_inspect_matches_its_manual(ledger):
    pod = {"name": "gcushare-pod-1", "namespace": "kube-system", "uid": "2713cdab", "createTime": CREATED, "usedGCU": 4}
    assert answers("gcushare")["/gcushare-scheduler"].view_nodes(ledger.list_nodes()) == {
        "nodes": [
            {
                "name": "n",
                "totalGCU": 32,
                "usedGCU": 4,
                "availableGCU": 28,
                "devices": [
                    {"id": 0, "totalGCU": 16, "usedGCU": 4, "availableGCU": 12, "pods": [pod]},
                    {"id": 1, "totalGCU": 16, "usedGCU": 0, "availableGCU": 16, "pods": []},
                ],
            }
        ]
    }


def test_gcushare_2025_inspect_lists_slices_by_minor_number(ledger):
    inspect = answers("native", "gcushare-2025")["/gcushare-scheduler"]
    (node,) = inspect.view_nodes(ledger.list_nodes())
    assert (node["totalGCU"], node["usedGCU"], node["availableGCU"]) == (12, 2, 10)
    assert list(node["devices"]) == ["0", "1"]
    assert node["devices"]["0"]["pods"][0]["usedGCU"] == 2
    assert inspect.view_node(ledger.find_node("n")) == node
    assert {key: node["devices"]["1"][key] for key in ("virt", "pods")} == {"virt": "Shared", "pods": []}


@pytest.mark.parametrize(
    ("in_use", "bare"),
    [((), False), (("gcushare",), False), (("gcushare-2025",), True), (("gcushare", "gcushare-2025"), True)],
)
def test_enabled_dialect_answers_on_a_shared_inspect_path(ledger, in_use, bare):
    found = answers(*in_use)
    assert sorted(found) == ["/gcushare-scheduler", "/gpushare-scheduler"]
    assert isinstance(found["/gcushare-scheduler"].view_nodes(ledger.list_nodes()), list) is bare


def test_unknown_pod_creation_time_is_empty(ledger):
    inspect = make_foreign_inspects(["gcushare"], {}.get)["/gcushare-scheduler"]
    assert inspect.view_node(ledger.find_node("n"))["nodes"][0]["devices"][0]["pods"][0]["createTime"] == ""


def test_aliyun_inspect_uses_its_own_field_names(ledger):
    assert answers()["/gpushare-scheduler"].view_node(ledger.find_node("n")) == {
        "nodes": [
            {
                "name": "n",
                "totalGPU": 32,
                "usedGPU": 4,
                "devs": [
                    {
                        "id": 0,
                        "totalGPU": 16,
                        "usedGPU": 4,
                        "pods": [{"name": "gcushare-pod-1", "namespace": "kube-system", "usedGPU": 4}],
                    },
                    {"id": 1, "totalGPU": 16, "usedGPU": 0, "pods": []},
                ],
            }
        ]
    }


def test_device_id_is_the_minor_number_or_else_the_position(ledger):
    cards = (Card("a", "v", "m", 16 * GIB, minor=5), Card("b", "v", "m", 16 * GIB))
    ledger.put_node("n", Inventory(GIB, cards))
    (node,) = answers("gcushare")["/gcushare-scheduler"].view_node(ledger.find_node("n"))["nodes"]
    assert [device["id"] for device in node["devices"]] == [5, 1]
