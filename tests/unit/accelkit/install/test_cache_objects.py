from __future__ import annotations

from typing import Any

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.install import cache_objects
from accelkit.install.cache_objects import CacheRequest, delete_cache, read_cache, wait_for_cache, write_cache
from accelkit.model.keys import CACHE_FINALIZER

CACHES = "/apis/gkm.io/v1alpha1/namespaces/team/gkmcaches"
CLUSTER_CACHES = "/apis/gkm.io/v1alpha1/clustergkmcaches"
NODES = "/apis/gkm.io/v1alpha1/namespaces/team/gkmcachenodes"
DIGEST = "sha256:" + "a" * 64
LLAMA = CacheRequest("llama", "team", {"image": "quay.io/acme/llama:v1"})


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(cache_objects, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(cache_objects, "_VERDICT_SECONDS", 0.0)


def condition(type_: str, status: str, reason: str, message: str = "") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def cache(*conditions: dict[str, str], generation: int = 1, seen: int = 1) -> dict[str, Any]:
    status = {"resolvedDigest": DIGEST, "observedGeneration": seen, "conditions": list(conditions)}
    return {"metadata": {"name": "llama", "namespace": "team", "generation": generation}, "spec": {}, "status": status}


def node(name: str, digest: str, *conditions: dict[str, str]) -> dict[str, Any]:
    caches = {"llama": {digest: {"conditions": list(conditions)}}, "other": {DIGEST: {"conditions": []}}}
    return {"metadata": {"name": name, "namespace": "team"}, "status": {"caches": caches}}


READY = condition("Ready", "True", "Ready")


async def test_cache_is_created_once_and_only_given_fields_are_updated(api):
    assert await write_cache(api, LLAMA) == ({}, True)
    made = api.objects[f"{CACHES}/llama"]
    assert (made["apiVersion"], made["kind"]) == ("gkm.io/v1alpha1", "GKMCache")
    assert await write_cache(api, LLAMA) == ({"image": "quay.io/acme/llama:v1"}, False)
    # What somebody else gave it, and what the API server put there by itself.
    made["spec"] |= {"size": "1Gi", "podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}
    template = {"spec": {"priorityClassName": "low"}}
    _, changed = await write_cache(api, CacheRequest("llama", "team", {"podTemplate": template}))
    assert changed
    assert api.objects[f"{CACHES}/llama"]["spec"] == {
        "image": "quay.io/acme/llama:v1",
        "size": "1Gi",
        "podTemplate": template,
    }


async def test_cache_without_namespace_is_cluster_scoped(api):
    request = CacheRequest("llama", spec={"image": "i", "workloadNamespaces": ["a"]})
    await write_cache(api, request)
    made = api.objects[f"{CLUSTER_CACHES}/llama"]
    assert made["kind"] == "ClusterGKMCache"
    assert "namespace" not in made["metadata"]
    assert str(request) == "ClusterGKMCache llama"


async def test_check_mode_writes_nothing(api):
    assert await write_cache(api, LLAMA, check=True) == ({}, True)
    assert await delete_cache(api, LLAMA, seconds=1, check=True) is False
    api.store(CACHES, cache(READY))
    assert await write_cache(api, LLAMA, check=True) == ({}, True)
    assert await delete_cache(api, LLAMA, seconds=1, check=True) is True
    assert api.writes == []


async def test_missing_image_or_crd_is_an_error_with_next_step(api):
    with pytest.raises(ConfigurationError, match="the image is missing"):
        await write_cache(api, CacheRequest("llama", "team"))
    api.fail(ApiError("the server could not find it", status=404, reason="NotFound"), "GET", "/gkmcaches", times=2)
    with pytest.raises(ConfigurationError, match="accelkit_kernel_caches: true"):
        await write_cache(api, LLAMA)


async def test_only_reports_for_the_resolved_digest_count_on_nodes(api):
    api.store(CACHES, cache(READY))
    api.store(NODES, node("b", DIGEST, condition("Compatible", "True", "Compatible"), READY))
    api.store(NODES, node("a", DIGEST, condition("Compatible", "False", "Incompatible", "sm_80")))
    api.store(NODES, node("c", "sha256:" + "b" * 64, READY))
    found, reports = await read_cache(api, LLAMA)
    assert found is not None
    assert [(each.node, each.ready, each.reason) for each in reports] == [
        ("a", False, "Incompatible"),
        ("b", True, "Ready"),
    ]
    assert await read_cache(api, CacheRequest("other", "team")) == (None, [])


async def test_wait_ignores_status_of_an_earlier_generation(api):
    api.store(CACHES, cache(READY, generation=2, seen=1))
    polls = []

    def settle(request):
        polls.append(request.path)
        if len(polls) == 5:
            api.objects[f"{CACHES}/llama"]["status"]["observedGeneration"] = 2

    api.before.append(settle)
    found, _ = await wait_for_cache(api, LLAMA, seconds=30)
    assert found.status.observed_generation == 2
    assert len(polls) >= 5


async def test_refused_signature_ends_the_wait_but_unavailable_registry_does_not(api):
    refused = condition("Verified", "False", "NotCovered", "no policy covers quay.io/acme/llama")
    api.store(CACHES, cache(refused, condition("Ready", "False", "NotCovered")))
    with pytest.raises(ServiceError, match="no policy covers") as caught:
        await wait_for_cache(api, LLAMA, seconds=3600)
    assert "kubectl describe gkmcache llama" in str(caught.value)
    away = condition("Verified", "Unknown", "RegistryUnavailable", "connection refused")
    api.store(CACHES, cache(away))
    polls = []
    api.before.append(polls.append)
    with pytest.raises(ServiceError, match="connection refused"):
        await wait_for_cache(api, LLAMA, seconds=0.05)
    assert len(polls) > 2


async def test_timeout_error_names_nodes_that_are_not_ready_with_reasons(api):
    api.store(CACHES, cache(condition("Verified", "True", "Verified"), condition("Ready", "False", "FailedOnNodes")))
    api.store(NODES, node("a", DIGEST, condition("Extracted", "False", "NodeFull", "3 GiB are missing")))
    api.store(NODES, node("b", DIGEST))
    with pytest.raises(ServiceError) as caught:
        await wait_for_cache(api, LLAMA, seconds=0)
    said = str(caught.value)
    assert "Ready is False (FailedOnNodes); on the nodes a (NodeFull: 3 GiB are missing), b (Pending)" in said
    assert "Verified" not in said


async def test_unprocessed_and_deleted_caches_are_reported(api):
    api.store(CACHES, cache(generation=3))
    with pytest.raises(ServiceError, match="the cache controller has not processed it yet"):
        await wait_for_cache(api, LLAMA, seconds=0)
    del api.objects[f"{CACHES}/llama"]
    with pytest.raises(ServiceError, match="it was deleted"):
        await wait_for_cache(api, LLAMA, seconds=60)


async def test_deletion_waits_for_cache_in_use_and_names_the_pod(api):
    used = cache(condition("Ready", "False", "InUse", "pod team/one mounts it"))
    used["metadata"]["finalizers"] = [CACHE_FINALIZER, "acme.example/hold"]
    api.store(CACHES, used)
    api.lingering["gkmcaches"] = -1
    with pytest.raises(ServiceError, match="pod team/one mounts it"):
        await delete_cache(api, LLAMA, seconds=0.05)
    assert await delete_cache(api, LLAMA, seconds=None) is True
    later = FakeApi()
    later.store(CACHES, cache(READY))
    later.lingering["gkmcaches"] = 3
    assert await delete_cache(later, LLAMA, seconds=60) is True
    assert later.objects == {}
    assert await delete_cache(later, LLAMA, seconds=60) is False


async def test_foreign_finalizers_are_named(api):
    held = cache(READY)
    held["metadata"]["finalizers"] = ["acme.example/hold"]
    api.store(CACHES, held)
    api.lingering["gkmcaches"] = -1
    with pytest.raises(ServiceError, match=r"of other controllers: acme\.example/hold; find these controllers"):
        await delete_cache(api, LLAMA, seconds=0.05)
