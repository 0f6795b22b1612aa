"""Changes that are not of a cache's own objects, and still have it looked at: Events of claims, pods that wait."""

import msgspec
import pytest
from pretended_cluster import OURS, cache_of

from accelkit.cachecontroller.claim_pods import ObservedPod
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import CLAIMS, ObservedObject
from accelkit.cachecontroller.filling.objects import EVENTS


@pytest.fixture
def marked():
    return []


@pytest.fixture
def observed(marked):
    objects = ClusterState(marked.append, home=OURS)
    objects.take_cache_event("ADDED", cache_of())
    marked.clear()
    return objects


def event_of(claim):
    involved = {"kind": "PersistentVolumeClaim", "namespace": OURS, "name": claim, "uid": "1"}
    body = {"metadata": {"name": "e", "namespace": OURS}, "reason": "ProvisioningFailed", "involvedObject": involved}
    return msgspec.convert(body, ObservedObject)


def pod_of(claim, namespace="team"):
    volumes = [{"persistentVolumeClaim": {"claimName": claim}}]
    body = {"metadata": {"name": "p", "namespace": namespace, "uid": "2"}, "spec": {"volumes": volumes}}
    return msgspec.convert(body, ObservedPod)


def test_event_of_fill_claim_marks_its_cache(observed, marked):
    observed.take_object_event(EVENTS)("ADDED", event_of("theirs"))
    assert marked == []
    metadata = {"name": "fill", "namespace": OURS, "annotations": {"cache.accelkit.io/key": "team/llama"}}
    observed.take_object_event(CLAIMS)("ADDED", msgspec.convert({"metadata": metadata}, ObservedObject))
    marked.clear()
    observed.take_object_event(EVENTS)("ADDED", event_of("fill"))
    assert marked == ["team/llama"]


@pytest.mark.parametrize("claim", ["llama", f"llama-{'1' * 12}"])
def test_pod_with_missing_claim_marks_cache_of_claim(observed, marked, claim):
    observed.take_pod_event("ADDED", pod_of(claim))
    assert marked == ["team/llama"]


@pytest.mark.parametrize(("claim", "namespace"), [("other", "team"), ("llama-x-y", "team"), ("llama", "elsewhere")])
def test_pod_with_unrelated_claim_marks_no_cache(observed, marked, claim, namespace):
    observed.take_pod_event("ADDED", pod_of(claim, namespace))
    assert marked == []
