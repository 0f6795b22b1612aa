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
def test_where_kernel_caches_are_not_installed_they_are_not_missed(cluster, told, given, expected):
    assert told(cluster.judge(**given), CACHES) == expected


def test_caches_that_are_ready_pass(cluster):
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
def test_a_cache_of_the_cluster_that_cannot_be_used_is_a_fault_and_one_under_way_is_none(
    cluster, told_by_agent, outcome
):
    cluster.install_caches(("", "triton", told_by_agent))
    result = cluster.judge()[CACHES]
    assert result.outcome == outcome
    if outcome == "fail":
        assert result.reason == "CacheNotReady"
        assert result.evidence.startswith(f"cache triton: {told_by_agent['reason']}")


def test_a_tenants_cache_makes_no_node_fail(cluster):
    cluster.install_caches(("team", "own", REFUSED))
    assert cluster.judge()[CACHES].outcome is Outcome.PASS


def test_a_cache_agent_that_is_not_ready_is_a_fault(cluster, told):
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
def test_a_node_is_watched_where_its_metrics_are_collected_and_tell_of_each_card(
    cluster, told, monitoring, outcome, reason
):
    assert told(cluster.judge(monitoring=monitoring), MONITORING) == (outcome, reason)


def test_what_has_the_agent_scraped_and_what_it_shows_is_reported(cluster):
    monitoring = Monitoring("PodMonitor accelkit/m", {"n": AgentMetrics(BOTH, 20)})
    assert cluster.judge(monitoring=monitoring)[MONITORING].evidence == (
        "PodMonitor accelkit/m configures scraping; its agent serves 20 series for 2 cards"
    )
    less = Monitoring("PodMonitor accelkit/m", {"n": AgentMetrics(frozenset(), 0)})
    evidence = cluster.judge(monitoring=less)[MONITORING].evidence
    assert evidence == "its agent serves 0 series, but none for GPU-n-0, GPU-n-1"


@pytest.mark.parametrize("key", ["accelkit.io/cards.count", "nvidia.com/gpu.count"])
def test_a_label_that_another_program_took_away_is_a_fault(cluster, told, key):
    del cluster.node.labels[key]
    results = cluster.judge()
    assert told(results, LABELS) == ("fail", "LabelMissing")
    assert results[LABELS].evidence == f"of 2 labels, these are missing: {key}"


@pytest.mark.parametrize(
    ("record", "expected"), [(None, ("fail", "LabelMissing")), ("[]", ("unknown", "LabelsUnreadable"))]
)
def test_an_agent_that_never_labelled_its_node_is_a_fault(cluster, told, record, expected):
    cluster.node.annotations["accelkit.io/labels"] = record
    cluster.node.labels = {"accelkit.io/share": "true"}
    assert told(cluster.judge(), LABELS) == expected


def test_a_label_to_which_another_program_gave_its_own_value_is_reported(cluster):
    cluster.node.labels["nvidia.com/gpu.count"] = "1"
    result = cluster.judge()[LABELS]
    assert result.outcome is Outcome.PASS
    assert result.evidence == "it has all 2 labels; another program changed the value of nvidia.com/gpu.count"
