"""Which caches a change concerns, and what is remembered of objects that others may write."""

from __future__ import annotations

import msgspec
import pytest

from accelkit.cachecontroller.claim_pods import ObservedPod
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import (
    CLAIMS,
    VOLUMES,
    NamedObject,
    ObjectName,
    ObservedNode,
    ObservedObject,
    Refusal,
)
from accelkit.gkm.objects import (
    Cache,
    CacheMeta,
    CacheNode,
    CacheSpec,
    NodeCacheStatus,
    NodeStatus,
    ReportMeta,
    SignerPolicyObject,
)
from accelkit.model.keys import CACHE_KEY_ANNOTATION
from accelkit.model.object_meta import ObjectMeta


class World:
    def __init__(self):
        self.now = 1000.0
        self.marked: list[str | None] = []
        self.seen = ClusterState(self.marked.append, clock=lambda: self.now)

    def told(self) -> list[str | None]:
        told, self.marked[:] = list(self.marked), []
        return told


@pytest.fixture
def world():
    return World()


def claim(name: str = "kernels", key: str = "team/kernels", namespace: str = "team") -> ObservedObject:
    meta = {"name": name, "namespace": namespace, "annotations": {CACHE_KEY_ANNOTATION: key}}
    return msgspec.convert({"metadata": meta}, ObservedObject)


def pod(phase: str = "Running", **volume) -> ObservedPod:
    body = {
        "metadata": {"name": "p", "namespace": "team", "uid": "p"},
        "spec": {"volumes": [volume, {"emptyDir": {}}]},
        "status": {"phase": phase},
    }
    return msgspec.convert(body, ObservedPod)


def report(**caches) -> CacheNode:
    return CacheNode(ReportMeta(name="n", namespace="team"), NodeStatus("n", caches=caches))


def test_own_writes_and_older_versions_mark_no_cache(world):
    cache = Cache(CacheMeta(name="c", namespace="team", resource_version="5"))
    world.seen.take_cache_event("ADDED", cache)
    assert world.told() == ["team/c"]
    world.seen.take_cache_event("MODIFIED", cache)
    assert world.told() == []
    world.seen.take_cache_event("DELETED", cache)
    assert world.told() == ["team/c"]
    world.seen.replace_caches(of_cluster=True)([Cache(CacheMeta(name="c"))])
    world.seen.replace_caches(of_cluster=False)([Cache(CacheMeta(name="c", namespace="team"))])
    world.seen.replace_caches(of_cluster=False)([])
    assert list(world.seen.caches) == ["/c"]

    def version(number: str) -> Cache:
        return Cache(CacheMeta(name="c", namespace="team", resource_version=number))

    world.seen.take_cache_event("ADDED", version("5"))
    world.seen.take_cache(version("4"))
    world.seen.take_cache_event("DELETED", version("3"))
    assert world.seen.caches["team/c"].metadata.resource_version == "5"


def test_changed_policy_marks_all_caches(world):
    policy = SignerPolicyObject(ReportMeta(name="p"), {"images": ["a"]})
    before = world.seen.policies
    world.seen.take_policy_event("ADDED", policy)
    assert world.told() == [None]
    assert world.seen.policies is not before
    world.seen.take_policy_event("MODIFIED", policy)
    assert world.told() == []
    world.seen.take_policy_event("DELETED", policy)
    assert world.told() == [None]


def test_namespace_event_marks_caches_that_list_namespace(world):
    world.seen.take_cache(Cache(CacheMeta(name="c"), CacheSpec(workload_namespaces=("team",))))
    world.seen.take_cache(Cache(CacheMeta(name="d"), CacheSpec(workload_namespaces=("other",))))
    world.seen.take_namespace_event("ADDED", NamedObject(ObjectMeta(name="team")))
    world.seen.take_namespace_event("MODIFIED", NamedObject(ObjectMeta(name="team")))
    assert world.told() == ["/c"]
    world.seen.take_namespace_event("MODIFIED", NamedObject(ObjectMeta(name="team", deletion_timestamp="x")))
    assert world.told() == ["/c"]
    assert world.seen.namespaces == {"team": True}


def test_report_event_marks_caches_with_changed_status(world):
    one, two = {"d": NodeCacheStatus(volume_size=1)}, {"d": NodeCacheStatus(volume_size=2)}
    world.seen.take_report_event("ADDED", report(a=one, b=one))
    assert sorted(world.told()) == ["team/a", "team/b"]
    world.seen.take_report_event("MODIFIED", report(a=one, b=two))
    assert world.told() == ["team/b"]
    world.seen.take_report_event("DELETED", report(a=one, b=two))
    assert sorted(world.told()) == ["team/a", "team/b"]


def test_pod_event_marks_cache_of_mounted_claim(world):
    world.seen.take_object_event(CLAIMS)("ADDED", claim())
    world.told()
    volume = {"persistentVolumeClaim": {"claimName": "kernels"}}
    world.seen.take_pod_event("ADDED", pod(**volume))
    assert world.told() == ["team/kernels"]
    world.seen.take_pod_event("MODIFIED", pod(**volume))
    assert world.told() == []
    world.seen.take_pod_event("MODIFIED", pod("Succeeded", **volume))
    assert world.told() == ["team/kernels"]
    assert world.seen.list_pods("team") == []
    world.seen.take_pod_event("ADDED", pod(hostPath={"path": "/"}))
    assert world.told() == []


def test_claim_with_changed_key_marks_both_caches(world):
    take = world.seen.take_object_event(CLAIMS)
    take("ADDED", claim())
    take("MODIFIED", claim(key="team/other"))
    assert sorted(world.told()[1:]) == ["team/kernels", "team/other"]
    assert world.seen.list_of_cache(CLAIMS, "team/kernels") == []
    take("MODIFIED", claim(key="no key"))
    assert world.seen.list_of_cache(CLAIMS, "team/other") == []
    take("DELETED", claim())
    assert world.seen.find(ObjectName(CLAIMS, "kernels", "team")) is None


def test_objects_of_deleted_cache_are_found_by_key(world):
    world.seen.replace_objects(VOLUMES)([claim("v", "team/gone", "")])
    assert world.seen.list_keys() == {"team/gone"}
    world.seen.replace_objects(VOLUMES)([])
    assert world.seen.list_keys() == set()


def test_refusals_expire_after_a_minute(world):
    name = ObjectName(CLAIMS, "kernels", "team")
    world.seen.refuse(name, Refusal("ClaimExists", "taken"))
    world.now += 59
    assert world.seen.find_refusal(name).reason == "ClaimExists"
    world.now += 2
    assert world.seen.find_refusal(name) is None
    world.seen.refuse(name, Refusal("ClaimExists", "taken"))
    world.seen.refuse(name, None)
    assert world.seen.find_refusal(name) is None


def test_stale_response_or_event_does_not_replace_newer_object(world):
    name = ObjectName(CLAIMS, "kernels", "team")

    def version(number: str, phase: str) -> ObservedObject:
        found = claim()
        found.metadata.resource_version, found.status["phase"] = number, phase
        return found

    world.seen.take_object_event(CLAIMS)("ADDED", version("9", "Pending"))
    world.seen.take_object_event(CLAIMS)("MODIFIED", version("11", "Bound"))
    world.seen.put(name, version("10", "Pending"))
    assert world.seen.find(name).status["phase"] == "Bound"
    # And an event of before what was answered neither.
    world.seen.put(name, version("13", "Lost"))
    world.seen.take_object_event(CLAIMS)("MODIFIED", version("12", "Bound"))
    world.seen.take_object_event(CLAIMS)("DELETED", version("12", "Bound"))
    assert world.seen.find(name).status["phase"] == "Lost"
    world.seen.take_object_event(CLAIMS)("DELETED", version("14", "Lost"))
    assert world.seen.find(name) is None


def test_host_name_of_node_is_read_from_its_label(world):
    made = {"metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "host", "other": "x"}}}
    world.seen.replace_nodes([msgspec.convert(made, ObservedNode)])
    assert world.seen.nodes == {"n": "host"}
    world.seen.take_node_event("MODIFIED", msgspec.convert({"metadata": {"name": "n"}}, ObservedNode))
    assert world.seen.nodes == {"n": "n"}
    world.seen.take_node_event("DELETED", msgspec.convert({"metadata": {"name": "n"}}, ObservedNode))
    assert world.seen.nodes == {}
