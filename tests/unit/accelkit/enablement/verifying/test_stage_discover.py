"""The stage `discover`."""

import pytest

from accelkit.enablement.facts.node_facts import Holders
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.stage import Stage

DISCOVER = Stage.DISCOVER


def test_discover_reports_cards_of_node(cluster):
    cluster.node.change_card(cordoned=True)
    assert cluster.judge()[DISCOVER].evidence == "2 x H100 (nvidia); 1 excluded from placement"


@pytest.mark.parametrize(
    ("conditions", "evidence"),
    [
        (
            [{"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}],
            "is not ready: Ku",
        ),
        ([{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}], "is not ready: KubeletNotReady"),
        ([{"type": "MemoryPressure", "status": "False"}], "has never reported readiness"),
        (None, "has never reported readiness"),
    ],
)
def test_node_with_unready_kubelet_is_unknown(cluster, told, conditions, evidence):
    cluster.node.conditions = conditions
    results = cluster.judge()
    assert told(results, DISCOVER) == ("unknown", "NodeNotReady")
    assert f"its kubelet {evidence}" in results[DISCOVER].evidence


BAD = ("{", '{"version": 9}', "[" * 100_000, '{"version": 1, "unit_bytes": 0, "cards": []}')


@pytest.mark.parametrize(
    ("text", "reason"), [(None, "InventoryMissing"), *((text, "InventoryUnreadable") for text in BAD)]
)
def test_missing_or_unreadable_inventory_is_unknown(cluster, told, text, reason):
    cluster.node.annotations[INVENTORY_ANNOTATION] = text
    assert told(cluster.judge(), DISCOVER) == ("unknown", reason)


def test_inventory_without_cards_fails(cluster, told):
    cluster.node.cards = []
    assert told(cluster.judge(), DISCOVER) == ("fail", "NoCards")


@pytest.mark.parametrize(
    ("count", "outcome"), [("2", "pass"), ("1", "pass"), ("3", "fail"), ("many", "pass"), ("", "pass")]
)
def test_card_count_of_another_program_is_compared_with_inventory(cluster, count, outcome):
    cluster.node.labels["nvidia.com/gpu.count"] = count
    cluster.node.annotations["accelkit.io/labels"] = '{"accelkit.io/cards.count": "2"}'
    result = cluster.judge()[DISCOVER]
    assert result.outcome == outcome
    if outcome == "fail":
        assert result.reason == "CardsMissing"
        assert result.evidence == "label nvidia.com/gpu.count counts 3 cards, the inventory has 2 of nvidia"


def test_card_count_label_written_by_agent_is_not_compared(cluster):
    cluster.node.labels["nvidia.com/gpu.count"] = "3"
    assert cluster.judge()[DISCOVER].outcome == "pass"


@pytest.mark.parametrize(
    ("label", "named", "outcome"),
    [(None, False, "skipped"), (None, True, "fail"), ("false", False, "skipped"), ("false", True, "skipped")],
)
def test_unshared_node_fails_only_if_named_and_not_opted_out(cluster, told, label, named, outcome):
    del cluster.node.labels["accelkit.io/share"]
    if label:
        cluster.node.labels["accelkit.io/share"] = label
    results = cluster.judge(named=frozenset({"n"} if named else ()), holders={"n": Holders(cards="gpu-operator")})
    assert told(results, DISCOVER) == (outcome, "NotShared")
    assert results[DISCOVER].evidence.endswith("; gpu-operator manages the node")
