from datetime import timedelta

import pytest
from cryptography import x509
from prometheus_client.parser import text_string_to_metric_families
from support.requests import build_inventory, build_request

from accelkit.extender import metrics as module
from accelkit.extender.metrics import CONTENT_TYPE, ExtenderMetrics
from accelkit.install.certificates.issuing import Authority
from accelkit.ledger.holding import UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import PodRef
from accelkit.placement.policies import Policy

VERBS = "accelkit_extender_request_duration_seconds"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_RATIO", 0)


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=1)
    ledger.put_node("n", build_inventory("a", "b"))
    return ledger


def shown(metrics):
    """The samples that a scrape returns, by name and labels."""
    families = text_string_to_metric_families(metrics.render().decode())
    samples = [each for family in families for each in family.samples]
    return {(each.name, *(f"{key}={value}" for key, value in each.labels.items())): each.value for each in samples}


def hold(ledger, name, memory):
    request = build_request(memory)
    ledger.reserve(PodRef("d", name, name), "n", request, Policy.SPREAD)
    return request


def test_ledger_metrics_are_read_at_each_scrape(ledger):
    metrics = ExtenderMetrics(ledger, lambda: 0.0)
    hold(ledger, "p", 4)
    request = hold(ledger, "q", 3)
    samples = shown(metrics)
    assert samples["accelkit_cards", "node=n"] == 2
    assert samples["accelkit_memory_capacity_bytes", "node=n"] == 32
    assert samples["accelkit_memory_used_bytes", "node=n"] == 7
    assert samples["accelkit_unassigned_pods", "node=n"] == 0
    assert samples["accelkit_pods",] == 2
    ledger.release("q")
    ledger.confirm_unassigned(UnassignedPod(PodRef("d", "r", "r"), "n", request, "none"))
    samples = shown(metrics)
    assert samples["accelkit_memory_used_bytes", "node=n"] == 4
    assert samples["accelkit_unassigned_pods", "node=n"] == 1


def test_nodes_without_cards_or_shares_are_omitted(ledger):
    ledger.put_node("bare", None)
    ledger.put_node("m", build_inventory("c"))
    hold(ledger, "p", 4)
    ledger.put_node("n", None)
    nodes = {sample[1] for sample in shown(ExtenderMetrics(ledger, lambda: 0.0)) if sample[0] == "accelkit_cards"}
    assert nodes == {"node=n", "node=m"}


def test_api_silence_and_leadership_are_read_at_each_scrape(ledger):
    state = {"silence": 1.5, "leads": False}
    metrics = ExtenderMetrics(ledger, lambda: state["silence"], lambda: state["leads"])
    assert shown(metrics)["accelkit_api_silence_seconds",] == 1.5
    assert shown(ExtenderMetrics(ledger, lambda: 0.0))["accelkit_leader",] == 1, "an extender that is alone leads"
    assert shown(metrics)["accelkit_leader",] == 0
    state.update(silence=0.0, leads=True)
    assert shown(metrics)["accelkit_api_silence_seconds",] == 0
    assert shown(metrics)["accelkit_leader",] == 1


def test_requests_errors_and_wakes_are_counted_by_label(ledger):
    metrics = ExtenderMetrics(ledger, lambda: 0.0)
    metrics.duration.labels("filter").observe(0.003)
    metrics.errors.labels("bind").inc()
    metrics.wakes.labels("written").inc()
    samples = shown(metrics)
    assert samples[f"{VERBS}_count", "verb=filter"] == 1
    assert samples["accelkit_extender_errors_total", "verb=bind"] == 1
    assert samples["accelkit_extender_wakes_total", "result=written"] == 1


def test_request_duration_buckets_range_from_half_a_millisecond_to_ten_seconds(ledger):
    metrics = ExtenderMetrics(ledger, lambda: 0.0)
    metrics.duration.labels("bind").observe(0.003)
    bounds = [key[1] for key in shown(metrics) if key[0] == f"{VERBS}_bucket"]
    finite = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]
    assert [float(bound.removeprefix("le=")) for bound in bounds] == [*finite, float("inf")]


def test_metrics_of_two_extenders_in_one_process_are_separate(ledger):
    one, other = ExtenderMetrics(ledger, lambda: 0.0), ExtenderMetrics(ledger, lambda: 0.0)
    one.errors.labels("bind").inc()
    assert ("accelkit_extender_errors_total", "verb=bind") not in shown(other)


def test_metrics_content_type_is_prometheus_text_format():
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


def test_certificate_expiry_is_read_at_each_scrape_and_skips_invalid_files(ledger, tmp_path):
    name = "accelkit_certificate_expiry_timestamp_seconds"
    metrics = ExtenderMetrics(ledger, lambda: 0.0, certificates=tmp_path)
    (tmp_path / "broken.crt").write_text("x")
    assert not [each for each in shown(metrics) if each[0] == name]
    certificate = Authority("x", timedelta(days=1)).certificate
    (tmp_path / "accelkit-ca.crt").write_bytes(certificate)
    end = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    assert {key: value for key, value in shown(metrics).items() if key[0] == name} == {
        (name, "certificate=accelkit-ca"): end.timestamp()
    }


def test_rejected_assignments_and_unreadable_objects_are_counted(ledger):
    counts = {"invalid_assignments": 0, "unreadable": 0}
    metrics = ExtenderMetrics(
        ledger,
        lambda: 0.0,
        invalid_assignments=lambda: counts["invalid_assignments"],
        unreadable=lambda: counts["unreadable"],
    )
    names = [("accelkit_disbelieved_assignments_total",), ("accelkit_unreadable_objects_total",)]
    assert [shown(metrics)[name] for name in names] == [0, 0]
    counts.update(invalid_assignments=2, unreadable=3)
    assert [shown(metrics)[name] for name in names] == [2, 3]


def test_repeated_scrape_returns_cached_text_during_the_pause(monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_RATIO", 10)
    times = iter([0.0, 0.2, 1.0, 1.9, 2.1, 2.2])
    metrics = ExtenderMetrics(Ledger(), lambda: 0.0, clock=lambda: next(times))
    first = metrics.render()
    metrics.errors.labels("bind").inc()
    assert [metrics.render(), metrics.render()] == [first, first]
    assert metrics.render() != first


def test_requests_are_counted_by_http_version(ledger):
    requests = {"HTTP/1.1": 0, "HTTP/2": 3}
    metrics = ExtenderMetrics(ledger, lambda: 0.0, requests=lambda: requests)
    requests["HTTP/2"] += 1
    found = shown(metrics)
    name = "accelkit_extender_requests_total"
    assert (found[name, "protocol=HTTP/1.1"], found[name, "protocol=HTTP/2"]) == (0, 4)
