"""What is kept of objects that tenants fill: the most that an API server stores, in small pieces."""

import gc
import tracemalloc

import msgspec
import pytest
from pretended_cluster import SETTINGS, Cluster, cache_of

from accelkit.cacheagent.planning.desired_caches import trim_cache
from accelkit.cacheagent.watches import Watches as AgentWatches
from accelkit.cachecontroller.claim_pods import ObservedPod, read_claim_pod, trim_pod
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import ObservedObject
from accelkit.cachecontroller.filling.image import ImageDelivery
from accelkit.cachecontroller.filling.namespace import NamespaceDelivery
from accelkit.cachecontroller.watches import Watches
from accelkit.gkm.objects import MOST_PLACEMENT_BYTES, Cache
from accelkit.kube.paths import PODS

VALUES = [f"{number:03x}" for number in range(4096)]
# As the CRD allows: many short texts, each of which is ten times as much in Python.
TERMS = [{"matchExpressions": [{"key": "k", "operator": "In", "values": VALUES[:256]}]}] * 400
AFFINITY = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}}
MANY = {f"k{number:05}": "v" for number in range(60_000)}


def measure(document, type_, trim=lambda _object: None):
    """What is kept of an object, in bytes, and at most while it is read."""
    text = msgspec.json.encode(document)
    assert 500_000 < len(text) < 1_500_000
    gc.collect()
    tracemalloc.start()
    kept = msgspec.json.decode(text, type=type_)
    trim(kept)
    gc.collect()
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept.metadata.name == "x"
    return now, peak


CACHES = {
    "placement": {"metadata": {"name": "x"}, "spec": {"podTemplate": {"spec": {"affinity": AFFINITY}}}},
    "labels": {"metadata": {"name": "x", "labels": MANY}},
    "annotations": {"metadata": {"name": "x", "annotations": MANY}},
    "labels of pods": {"metadata": {"name": "x"}, "spec": {"podTemplate": {"metadata": {"labels": MANY}}}},
}


@pytest.mark.parametrize("document", CACHES.values(), ids=CACHES)
@pytest.mark.parametrize("trim", [lambda _cache: None, trim_cache], ids=["controller", "agent"])
def test_large_cache_is_decoded_in_bounded_memory(document, trim):
    kept, peak = measure(document, Cache, trim)
    assert kept < 80_000
    assert peak < 2_000_000


@pytest.mark.parametrize(("trim", "most"), [(lambda _cache: None, 1_100_000), (trim_cache, 80_000)])
def test_many_finalizers_are_kept_in_bounded_memory(trim, most):
    many = [f"a/{number:x}" for number in range(80_000)]
    kept, peak = measure({"metadata": {"name": "x", "finalizers": many}}, Cache, trim)
    assert kept < most
    assert peak < 3_000_000
    cache = msgspec.json.decode(msgspec.json.encode({"metadata": {"finalizers": many}}), type=Cache)
    assert cache.metadata.finalizers == many


OURS = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "kernel-cache"}
OBJECTS = {
    "selector": {"metadata": {"name": "x", "labels": OURS}, "spec": {"selector": {"matchLabels": MANY}}},
    "labels": {"metadata": {"name": "x", "labels": {**MANY, **OURS}}},
    "owners": {"metadata": {"name": "x", "ownerReferences": [{"kind": "A", "name": "b", "uid": "c"}] * 20_000}},
}


@pytest.mark.parametrize("document", OBJECTS.values(), ids=OBJECTS)
def test_large_claim_is_decoded_in_bounded_memory(document):
    kept, peak = measure(document, ObservedObject)
    assert kept < 10_000
    assert peak < 2_000_000


def test_only_short_accelkit_annotations_are_kept():
    ours = {"cache.accelkit.io/key": "team/llama", "cache.accelkit.io/digest": "y" * 5000, "other": "z"}
    observed = msgspec.json.decode(msgspec.json.encode({"metadata": {"annotations": ours}}), type=ObservedObject)
    assert observed.metadata.annotations == {"cache.accelkit.io/key": "team/llama"}


def test_only_claim_mounts_of_large_pod_are_kept():
    mounts = [{"name": f"v{number % 3}", "mountPath": f"/{number}"} for number in range(20_000)]
    volumes = [
        {"name": "v0", "persistentVolumeClaim": {"claimName": "written"}},
        {"name": "v1", "emptyDir": {}},
        {"name": "v3", "persistentVolumeClaim": {"claimName": "read"}},
    ]
    spec = {"volumes": volumes, "containers": [{"volumeMounts": mounts}], "nodeName": "n"}
    document = {"metadata": {"name": "x", "uid": "u", "namespace": "team"}, "spec": spec}
    kept, _ = measure(document, ObservedPod, trim_pod)
    assert kept < 10_000
    pod = msgspec.json.decode(msgspec.json.encode(document), type=ObservedPod)
    whole = read_claim_pod(pod)
    trim_pod(pod)
    assert read_claim_pod(pod) == whole
    assert (whole.claims, whole.writable, whole.node) == ({"written", "read"}, {"written"}, "n")


def test_watches_of_pods_and_caches_trim_their_lists():
    assert Watches(None, ClusterState(lambda _key: None), lambda: None)._by_path[PODS]._trim is trim_pod
    watched = {each._path: each for each in AgentWatches(None, "n", lambda: None)._reflectors}
    trimmed = [path for path, each in watched.items() if each._trim is trim_cache]
    assert [path.rpartition("/")[2] for path in trimmed] == ["gkmcaches", "clustergkmcaches"]


def test_oversized_pod_template_is_reported_and_creates_nothing():
    template = {"spec": {"affinity": AFFINITY}}
    for mode, spec in (
        (NamespaceDelivery(SETTINGS), {}),
        (ImageDelivery(SETTINGS), {"delivery": "image"}),
    ):
        cache = cache_of(podTemplate=template, **spec)
        cache.status.cache_format, cache.status.relocatable = "triton", True
        plan = mode.plan(cache, Cluster())
        (ready,) = [each for each in plan.states["team"].conditions if each.type == "Ready"]
        assert (ready.status, ready.reason) == ("False", "InvalidSpec")
        assert ready.message == f"spec.podTemplate.spec is larger than {MOST_PLACEMENT_BYTES} bytes; shorten it"
        assert not plan.create
