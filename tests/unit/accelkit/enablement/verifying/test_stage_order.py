"""Which stages are judged on a node, and what the others say instead."""

import pytest

from accelkit.enablement.stages.judging import find_cause
from accelkit.model.stage import NEEDS, Outcome, Stage

NOW = 1_900_000_000.0
NOT_WANTED = {Stage.KERNEL_CACHE_CHECK, Stage.MONITORING}


def test_every_stage_of_healthy_node_passes_or_is_not_installed(cluster):
    results = cluster.judge()
    assert list(results) == list(Stage)
    assert {stage for stage, each in results.items() if each.outcome is Outcome.SKIPPED} == NOT_WANTED
    assert {each.outcome for stage, each in results.items() if stage not in NOT_WANTED} == {Outcome.PASS}


def test_passed_stage_has_evidence_and_no_next_action(cluster):
    for stage, result in cluster.judge().items():
        assert result.evidence
        assert (result.reason, result.next_action) == ("", "") or stage in NOT_WANTED
        assert result.found_at == (1.0 if stage in (Stage.PLUGIN_CHECK, Stage.EXTENDER_CHECK) else NOW)


def test_stages_that_depend_on_failed_stage_are_skipped(cluster):
    cluster.node.inventory["problem"] = "too many devices"
    results = cluster.judge()
    assert results[Stage.DEVICE_PLUGIN].outcome is Outcome.FAIL
    for stage in list(Stage)[5:]:
        assert results[stage].outcome is Outcome.SKIPPED
        assert results[stage].evidence == "device-plugin did not pass: its outcome is fail (UnitRefused)"
        assert find_cause(stage, results) is Stage.DEVICE_PLUGIN


def test_feature_labels_do_not_depend_on_plugin_check(cluster):
    cluster.node.checked = {}
    results = cluster.judge()
    assert results[Stage.PLUGIN_CHECK].outcome is Outcome.UNKNOWN
    assert results[Stage.EXTENDER_CHECK].outcome is Outcome.SKIPPED
    assert results[Stage.FEATURE_LABELS].outcome is Outcome.PASS


@pytest.mark.parametrize("stage", list(Stage)[1:])
def test_every_stage_is_skipped_after_failed_discovery(cluster, stage):
    cluster.node.cards = []
    results = cluster.judge()
    assert results[Stage.DISCOVER].reason == "NoCards"
    assert (results[stage].outcome, find_cause(stage, results)) == (Outcome.SKIPPED, Stage.DISCOVER)


def test_stages_depend_only_on_earlier_stages():
    order = list(Stage)
    assert all(order.index(need) < order.index(stage) for stage, needs in NEEDS.items() for need in needs)
