"""A report is small enough to be stored, whatever a namespace has, and says what it leaves out."""

from __future__ import annotations

import msgspec
import pytest
from agent_worlds import A, B, desired, folder, link, pod, stored, world

from accelkit.cacheagent.planning.plan import make_plan
from accelkit.cacheagent.reporting.bounds import MAX_BYTES, bound_report, measure
from accelkit.cacheagent.reporting.report import build_reports
from accelkit.cacheagent.reporting.status_patch import build_status_patch
from accelkit.gkm.conditions import ConditionType, Reason, find_condition, state
from accelkit.gkm.objects import CachePod, NodeCacheStatus, NodeStatus


def entry(pods: int, message: str = "", *, former: bool = False) -> NodeCacheStatus:
    kinds = [ConditionType.OUTDATED] if former else [ConditionType.READY, ConditionType.OUTDATED]
    return NodeCacheStatus(
        pods=[CachePod("team", f"p{number}") for number in range(pods)],
        conditions=[state(kind, Reason.READY, message, holds=True) for kind in kinds],
    )


def status(caches: int, pods: int, message: str = "") -> NodeStatus:
    return NodeStatus(node_name="n", caches={f"c{number:04}": {A: entry(pods, message)} for number in range(caches)})


def messages(found: NodeStatus, kind: ConditionType) -> set[str]:
    conditions = [
        find_condition(each.conditions, kind) for by_digest in found.caches.values() for each in by_digest.values()
    ]
    return {each.message for each in conditions if each is not None}


def test_report_lists_at_most_250_pods_per_digest():
    whole = status(30, 100, "x")
    assert bound_report(whole).status is whole
    bounded = bound_report(NodeStatus(caches={"add": {A: entry(300), B: entry(260, former=True)}}))
    assert [len(each.pods) for each in bounded.status.caches["add"].values()] == [250, 250]
    assert messages(NodeStatus(caches={"b": {B: bounded.status.caches["add"][B]}}), ConditionType.OUTDATED) == {
        "pods that are not listed: 10"
    }


def test_pods_are_omitted_equally_from_each_cache_and_counted():
    bounded = bound_report(status(100, 200, "served"), 300_000)
    listed = {len(each[A].pods) for each in bounded.status.caches.values()}
    (number,) = listed
    assert 10 < number < 100
    assert messages(bounded.status, ConditionType.READY) == {f"served; pods that are not listed: {200 - number}"}
    assert messages(bounded.status, ConditionType.OUTDATED) == {"served"}
    assert (measure(bounded.status) <= 300_000, bounded.left_out) == (True, 0)
    # As many as fit: one more of each would not.
    assert measure(bounded.status) > 300_000 - 100 * 60


def test_recorded_variables_are_omitted_before_pods_and_only_as_needed():
    recorded = {f"VLLM_{number}": "x" * 90 for number in range(100)}
    whole = status(20, 10)
    for by_digest in whole.caches.values():
        by_digest[A].recorded_environment = recorded
    bounded = bound_report(whole, 100_000)
    entries = [each[A] for each in bounded.status.caches.values()]
    kept = [each.recorded_environment for each in entries if each.recorded_environment]
    assert kept == [recorded] * len(kept)
    assert 0 < len(kept) < 20
    assert {len(each.pods) for each in entries} == {10}
    assert (measure(bounded.status) <= 100_000, bounded.left_out) == (True, 0)


def test_one_pod_per_digest_is_kept_and_messages_are_truncated():
    bounded = bound_report(status(200, 50, "m" * 1000), 200_000)
    assert {len(each[A].pods) for each in bounded.status.caches.values()} == {1}
    assert {len(each) <= 200 for each in messages(bounded.status, ConditionType.READY)} == {True}
    assert (len(bounded.status.caches), bounded.left_out) == (200, 0)
    assert measure(bounded.status) <= 200_000


def test_caches_are_omitted_last_and_size_includes_timestamps():
    bounded = bound_report(status(5000, 3, "m" * 1000))
    assert bounded.left_out == 5000 - len(bounded.status.caches)
    assert 1000 < len(bounded.status.caches) < 5000
    assert min(bounded.status.caches) == "c0000"
    assert measure(bounded.status) <= MAX_BYTES
    bounded = bound_report(status(400, 200)).status
    patch = build_status_patch(None, bounded, "2026-11-24T00:00:00Z")
    assert len(msgspec.json.encode(patch["status"])) <= MAX_BYTES


@pytest.mark.parametrize("pods", [0, 3])
def test_counts_include_omitted_pods(pods):
    known = world(
        desired(),
        stored={folder(A): stored()},
        links={link(): folder(A)},
        pods=tuple(pod(f"p{number}") for number in range(pods)),
    )
    report = build_reports(known, make_plan(known), {}, node_name="n", root="/store")["team"]
    bounded = bound_report(report, 700)
    assert bounded.status.counts.pod_running_cnt == pods
