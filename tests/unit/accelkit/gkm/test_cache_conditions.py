"""Conditions of caches: their times, their length, and what is not known."""

from __future__ import annotations

import msgspec
import pytest

from accelkit.gkm.conditions import ConditionType, Reason, find_condition, holds, merge_conditions, state
from accelkit.gkm.objects import Cache, CacheCounts, CacheMeta, CacheSpec

BEFORE, NOW = "2026-11-24T00:00:00Z", "2026-11-24T00:01:00Z"


def ready(*, is_so: bool | None, message: str = ""):
    return state(ConditionType.READY, Reason.READY if is_so else Reason.PENDING, message, holds=is_so)


def test_transition_time_changes_only_with_status():
    first = merge_conditions([], [ready(is_so=False)], now=BEFORE, generation=1)
    same = merge_conditions(first, [ready(is_so=False, message="2 of 3 nodes")], now=NOW, generation=2)
    other = merge_conditions(same, [ready(is_so=True)], now=NOW, generation=2)
    assert [each[0].last_transition_time for each in (first, same, other)] == [BEFORE, BEFORE, NOW]
    assert (same[0].message, same[0].observed_generation) == ("2 of 3 nodes", 2)
    former = merge_conditions([], [ready(is_so=True), state(ConditionType.OUTDATED, "x", holds=True)], now=BEFORE)
    assert [each.type for each in merge_conditions(former, [ready(is_so=True)], now=NOW)] == ["Ready"]


@pytest.mark.parametrize(("is_so", "status"), [(True, "True"), (False, "False"), (None, "Unknown")])
def test_unknown_condition_has_status_unknown_and_does_not_hold(is_so, status):
    conditions = [ready(is_so=is_so)]
    assert conditions[0].status == status
    assert holds(conditions, ConditionType.READY) == (is_so is True)
    assert find_condition(conditions, ConditionType.VERIFIED) is None
    assert not holds(conditions, ConditionType.VERIFIED)


def test_condition_message_is_bounded_and_zero_counts_are_written():
    message = ready(is_so=False, message="\x1b[31m" + "x" * 5000).message
    assert len(message) <= 1024
    assert "\x1b" not in message
    assert msgspec.to_builtins(CacheCounts(node_cnt=2)) == {
        "nodeCnt": 2,
        "nodeInUseCnt": 0,
        "nodeNotInUseCnt": 0,
        "nodeErrorCnt": 0,
        "podRunningCnt": 0,
        "podDeletingCnt": 0,
        "podOutdatedCnt": 0,
    }


def test_namespaced_cache_ignores_workload_namespaces():
    spec = CacheSpec(workload_namespaces=("b", "a", "b"))
    one = Cache(CacheMeta(name="x", namespace="team"), spec)
    two = Cache(CacheMeta(name="x"), spec)
    assert (one.namespaces, one.key, one.of_cluster) == (("team",), "team/x", False)
    assert (two.namespaces, two.key, two.of_cluster) == (("b", "a"), "/x", True)
