"""Which reasons are failures, refusals or neither: every reason, through all who read them."""

import pytest
from fake_api.server import FakeApi

from accelkit.cacheagent.planning.desired_caches import read_desired_cache
from accelkit.cachecontroller.deciding.judgement import Question, Refused, decide
from accelkit.cachecontroller.deciding.node_views import CacheNodeReport
from accelkit.errors import ServiceError
from accelkit.gkm.conditions import (
    NOT_MEANT,
    UNDECIDED,
    UNDER_WAY,
    ConditionType,
    Reason,
    find_condition,
    is_refusal,
    state,
)
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, CacheStatus, NodeCacheStatus
from accelkit.install import cache_objects
from accelkit.install.cache_objects import CacheRequest, wait_for_cache
from accelkit.kernelcache.signatures import RejectionReason

REASONS = [*Reason, *(each for each in RejectionReason if each not in set(Reason))]
RETRYABLE = UNDECIDED | {Reason.PENDING, Reason.RETRYING}


def test_reason_groups_are_disjoint():
    groups = [UNDER_WAY, UNDECIDED, NOT_MEANT]
    assert len(frozenset.union(*groups)) == sum(map(len, groups))


@pytest.mark.parametrize("reason", RejectionReason)
def test_undecided_reasons_are_the_retryable_rejections(reason):
    assert reason.retryable == (reason in UNDECIDED)


@pytest.mark.parametrize("reason", REASONS)
def test_node_fails_unless_reason_is_under_way_or_not_meant(reason):
    ready = state(ConditionType.READY, reason, "says so", holds=False)
    view = CacheNodeReport("n", NodeCacheStatus(conditions=[ready]))
    assert (view.failure is None) == (reason in UNDER_WAY | NOT_MEANT)
    waits = state(ConditionType.READY, reason, "says so", holds=None)
    assert CacheNodeReport("n", NodeCacheStatus(conditions=[waits])).failure is None


@pytest.mark.parametrize("reason", REASONS)
async def test_agent_and_module_treat_the_same_reasons_as_refusals(reason, monkeypatch):
    monkeypatch.setattr(cache_objects, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(cache_objects, "_VERDICT_SECONDS", 0.0)
    verified = state(ConditionType.VERIFIED, reason, "says so", holds=False)
    cache = Cache(
        CacheMeta(name="c", namespace="team"), CacheSpec(image="q.io/a/b:v1"), CacheStatus(conditions=[verified])
    )
    refused = reason not in UNDER_WAY | UNDECIDED
    assert is_refusal(verified) == refused
    assert read_desired_cache(cache).verified == (False if refused else None)
    api, reads = FakeApi(), []
    status = {"conditions": [{"type": "Verified", "status": "False", "reason": str(reason)}]}
    api.store(
        "/apis/gkm.io/v1alpha1/namespaces/team/gkmcaches",
        {"metadata": {"name": "c", "namespace": "team"}, "status": status},
    )
    api.before.append(reads.append)
    with pytest.raises(ServiceError, match="is not ready"):
        await wait_for_cache(api, CacheRequest("c", "team"), seconds=3600 if refused else 0.02)
    # Of the cache, and of the reports of nodes.
    assert (len(reads) == 2) == refused


@pytest.mark.parametrize("reason", sorted(map(str, RETRYABLE)))
@pytest.mark.parametrize("digest", ["", "sha256:" + "a" * 64])
def test_verification_is_unknown_after_retryable_failure(reason, digest):
    cache = Cache(
        CacheMeta(name="c", namespace="team"), CacheSpec(image="q.io/a/b:v1"), CacheStatus(resolved_digest=digest)
    )
    asked = Refused(reason, "says so", retryable=True)
    for decision in (
        decide(cache, asked, None, now=1.0, again_seconds=600),
        decide(cache, Question("q.io/a/b:v1", "p"), None, now=1.0, again_seconds=600),
    ):
        found = find_condition(decision.conditions, ConditionType.VERIFIED)
        assert found is not None
        assert found.status == "Unknown"
        assert not is_refusal(found)
