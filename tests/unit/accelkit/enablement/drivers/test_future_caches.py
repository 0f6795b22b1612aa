"""Which kernel caches are read before a driver is upgraded, and for how long."""

import asyncio

from accelkit.enablement.drivers.future import reading
from accelkit.enablement.drivers.future.reading import read_caches
from accelkit.kernelcache.registry import RegistrySettings

CACHES = "/apis/gkm.io/v1alpha1/gkmcaches"
CLUSTER_CACHES = "/apis/gkm.io/v1alpha1/clustergkmcaches"
DIGEST = f"sha256:{'0' * 64}"


def put(api, name, *, namespace="", digest="", image="registry.example.org/k:1"):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    collection = f"/apis/gkm.io/v1alpha1/namespaces/{namespace}/gkmcaches" if namespace else CLUSTER_CACHES
    status = {"resolvedDigest": digest} if digest else {}
    api.store(collection, {"metadata": metadata, "spec": {"image": image}, "status": status})


async def test_unverified_namespaced_caches_are_skipped_and_images_are_read_once(api, monkeypatch):
    asked = []

    async def read(_client, image, digest):
        asked.append((image, digest))

    monkeypatch.setattr(reading, "_read_labels", read)
    put(api, "whole")
    put(api, "made-up", namespace="a", image="10.0.0.1:1/x")
    for name in ("b", "c"):
        put(api, name, namespace="a", digest=DIGEST)
    found = await read_caches(api, RegistrySettings())
    assert found == {"whole": None, "a/b": None, "a/c": None}
    assert sorted(asked) == [("registry.example.org/k:1", ""), ("registry.example.org/k:1", DIGEST)]


async def test_unresponsive_registries_do_not_delay_cache_reading(api, monkeypatch):
    monkeypatch.setattr(reading, "_CACHES_SECONDS", 0.05)

    async def read(_client, image, _digest):
        await asyncio.sleep(60 if "slow" in image else 0)
        return "labels"

    monkeypatch.setattr(reading, "_read_labels", read)
    put(api, "quick")
    put(api, "slow", namespace="a", digest=DIGEST, image="slow.example.org/k:1")
    assert await read_caches(api, RegistrySettings()) == {"quick": "labels", "a/slow": None}
