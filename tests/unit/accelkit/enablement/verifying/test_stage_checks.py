"""The stages `plugin-check` and `extender-check`: results belong to a boot, a kernel, drivers and a set of cards."""

import hashlib

import pytest

from accelkit.model.card import Card
from accelkit.model.keys import STAGES_ANNOTATION
from accelkit.model.stage import NodeState, Outcome, Stage, StageRecord, StageResult, write_record

CHECK, PLACED = Stage.PLUGIN_CHECK, Stage.EXTENDER_CHECK


def test_check_result_for_current_state_is_reported_unchanged(cluster):
    result = cluster.judge()[CHECK]
    assert (result.outcome, result.evidence, result.found_at, result.seconds) == (
        "pass",
        "4 GiB of its share",
        1.0,
        2.5,
    )


def test_missing_check_result_is_unknown_with_next_action(cluster, told):
    cluster.node.checked = {}
    results = cluster.judge()
    assert told(results, CHECK) == ("unknown", "NeverChecked")
    assert results[CHECK].next_action == "Run the check again: ansible-playbook playbooks/verify.yml -i INVENTORY"


def reboot(node):
    node.info["bootID"] = "boot-2"


def change_kernel(node):
    node.info["kernelVersion"] = "6.11.0"


def change_driver(node):
    for index in range(2):
        node.change_card(index, driver_version="570.1")


def change_card(node):
    node.cards[0] = Card("GPU-new", "nvidia", "H100", 80 * 2**30, driver_version="550.54")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (reboot, "boot boot-1 is boot-2 now"),
        (change_kernel, "kernel 6.8.0-45 is 6.11.0 now"),
        (change_driver, "driver 550.54 is 570.1 now"),
        (change_card, "set of cards "),
    ],
)
@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.FAIL])
def test_check_result_is_stale_after_node_changes(cluster, told, change, word, outcome):
    cluster.node.checked_in = cluster.node.state
    cluster.node.checked = {CHECK: outcome}
    change(cluster.node)
    results = cluster.judge()
    assert told(results, CHECK) == ("stale", "StateChanged")
    assert results[CHECK].evidence.startswith(word)
    assert results[CHECK].evidence.endswith(f"the previous outcome was {outcome}")
    assert results[PLACED].outcome is Outcome.SKIPPED


def test_check_result_of_replaced_node_is_stale(cluster, another_state):
    cluster.node.checked_in = another_state
    result = cluster.judge()[CHECK]
    assert result.outcome is Outcome.STALE
    for part in ("boot boot-0", "kernel 6.8.0-44", f"set of cards {'0' * 16}"):
        assert part in result.evidence


def test_order_of_cards_does_not_change_node_state(cluster):
    cluster.node.checked_in = cluster.node.state
    cluster.node.cards.reverse()
    assert cluster.judge()[CHECK].outcome is Outcome.PASS


def test_check_result_without_state_is_stale(cluster, told):
    record = StageRecord({CHECK: StageResult(Outcome.PASS)})
    cluster.node.annotations[STAGES_ANNOTATION] = write_record(record)
    assert told(cluster.judge(), CHECK) == ("stale", "StateChanged")


@pytest.mark.parametrize(
    ("found", "expected"), [(Outcome.SKIPPED, ("unknown", "NeverChecked")), (Outcome.FAIL, ("fail", ""))]
)
def test_skipped_check_is_unknown_and_failed_check_fails(cluster, told, found, expected):
    cluster.node.checked = {CHECK: Outcome.PASS, PLACED: found}
    results = cluster.judge()
    assert results[CHECK].outcome is Outcome.PASS
    assert told(results, PLACED) == expected


def test_node_state_has_stable_format(cluster):
    """Another way to write it would make all results stale."""
    cluster.node.change_card(driver_version="535.1")
    cards = hashlib.sha256(b"GPU-n-0\nGPU-n-1").hexdigest()[:16]
    assert cluster.node.state == NodeState("boot-1", "6.8.0-45", "535.1,550.54", cards)


def test_node_state_without_inventory_has_no_cards(cluster):
    cluster.node.annotations["accelkit.io/inventory"] = "{"
    assert cluster.node.state == NodeState("boot-1", "6.8.0-45")


@pytest.mark.parametrize(
    "text", ["{", '{"results": {}, "version": 2}', '{"results": {"plugin-check": {"outcome": "green"}}}', "x" * 20_000]
)
def test_unreadable_stage_record_is_unknown(cluster, told, text):
    cluster.node.annotations[STAGES_ANNOTATION] = text
    assert told(cluster.judge(), CHECK) == ("unknown", "RecordUnreadable")
