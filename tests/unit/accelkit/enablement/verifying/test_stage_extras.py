"""The stages `kernel-cache-check`, `monitoring` and `feature-labels`."""

import pytest

from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import AgentMetrics, Monitoring, NotServed
from accelkit.model.stage import Outcome, Stage

CACHES, MONITORING, LABELS = Stage.KERNEL_CACHE_CHECK, Stage.MONITORING, Stage.FEATURE_LABELS


def condition(type_, status, reason, message=""):
    return {"type": type_, "status": status, "reason": reason, "message": message}


READY = condition("Ready", "True", "Ready")
REFUSED = condition("Ready", "False", "NotSigned", "nobody whom the policies name signed it")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("skipped", "NotInstalled")),
        ({"caches": []}, ("skipped", "NotInstalled")),
        ({"caches": Unread("timed out")}, ("unknown", "CachesUnread")),
    ],
    ids=["nothing", "definitions alone", "refused"],
)
def test_cache_stage_is_skipped_if_caches_are_not_installed(cluster, told, given, expected):
    assert told(cluster.judge(**given), CACHES) == expected


def test_ready_caches_pass(cluster):
    cluster.install_caches(("", "triton", READY), ("team", "own", READY))
    result = cluster.judge()[CACHES]
    assert result.outcome is Outcome.PASS
    assert result.evidence == (
        "pod kernel-caches-n is ready; none of 1 cluster caches failed; 1 namespaced caches are not judged"
    )


@pytest.mark.parametrize(
    ("told_by_agent", "outcome"),
    [
        (REFUSED, "fail"),
        (condition("Degraded", "True", "ContentChanged"), "fail"),
        (condition("Ready", "False", "Extracting"), "pass"),
        (condition("Ready", "False", "Incompatible"), "pass"),
        (condition("Ready", "Unknown", "RegistryUnavailable"), "pass"),
    ],
)
def test_unusable_cluster_cache_fails_and_pending_cluster_cache_passes(cluster, told_by_agent, outcome):
    cluster.install_caches(("", "triton", told_by_agent))
    result = cluster.judge()[CACHES]
    assert result.outcome == outcome
    if outcome == "fail":
        assert result.reason == "CacheNotReady"
        assert result.evidence.startswith(f"cache triton: {told_by_agent['reason']}")


def test_namespaced_cache_does_not_fail_node(cluster):
    cluster.install_caches(("team", "own", REFUSED))
    assert cluster.judge()[CACHES].outcome is Outcome.PASS


def test_unready_cache_agent_fails(cluster, told):
    cluster.install_caches()
    cluster.node.pods[-1]["status"]["conditions"] = []
    assert told(cluster.judge(), CACHES) == ("fail", "CacheAgentNotReady")


BOTH = frozenset({"GPU-n-0", "GPU-n-1"})


@pytest.mark.parametrize(
    ("monitoring", "outcome", "reason"),
    [
        (None, "skipped", "NotInstalled"),
        (Unread("it is forbidden"), "unknown", "MonitoringUnread"),
        (Monitoring("PodMonitor accelkit/m", {"n": AgentMetrics(BOTH, 20)}), "pass", ""),
        (
            Monitoring("PodMonitor accelkit/m", {"n": AgentMetrics(frozenset({"GPU-n-0"}), 10)}),
            "fail",
            "MetricsMissing",
        ),
        (Monitoring("PodMonitor accelkit/m", {"n": Unread("no answer")}), "unknown", "MetricsUnread"),
        (Monitoring("PodMonitor accelkit/m", {"n": NotServed()}), "skipped", "MetricsOff"),
        (Monitoring("PodMonitor accelkit/m", {"other": AgentMetrics(BOTH, 20)}), "unknown", "MetricsUnread"),
    ],
)
def test_monitoring_passes_if_metrics_are_scraped_for_each_card(cluster, told, monitoring, outcome, reason):
    assert told(cluster.judge(monitoring=monitoring), MONITORING) == (outcome, reason)


def test_monitoring_reports_scrape_configuration_and_served_series(cluster):
    monitoring = Monitoring("PodMonitor accelkit/m", {"n": AgentMetrics(BOTH, 20)})
    assert cluster.judge(monitoring=monitoring)[MONITORING].evidence == (
        "PodMonitor accelkit/m configures scraping; its agent serves 20 series for 2 cards"
    )
    less = Monitoring("PodMonitor accelkit/m", {"n": AgentMetrics(frozenset(), 0)})
    evidence = cluster.judge(monitoring=less)[MONITORING].evidence
    assert evidence == "its agent serves 0 series, but none for GPU-n-0, GPU-n-1"


@pytest.mark.parametrize("key", ["accelkit.io/cards.count", "nvidia.com/gpu.count"])
def test_label_removed_by_another_program_fails(cluster, told, key):
    del cluster.node.labels[key]
    results = cluster.judge()
    assert told(results, LABELS) == ("fail", "LabelMissing")
    assert results[LABELS].evidence == f"of 2 labels, these are missing: {key}"


@pytest.mark.parametrize(
    ("record", "expected"), [(None, ("fail", "LabelMissing")), ("[]", ("unknown", "LabelsUnreadable"))]
)
def test_missing_label_record_fails_and_invalid_record_is_unknown(cluster, told, record, expected):
    cluster.node.annotations["accelkit.io/labels"] = record
    cluster.node.labels = {"accelkit.io/share": "true"}
    assert told(cluster.judge(), LABELS) == expected


def test_label_value_changed_by_another_program_is_reported(cluster):
    cluster.node.labels["nvidia.com/gpu.count"] = "1"
    result = cluster.judge()[LABELS]
    assert result.outcome is Outcome.PASS
    assert result.evidence == "it has all 2 labels; another program changed the value of nvidia.com/gpu.count"
