"""The role kernel_cache where GKM was there before: what it refuses, adopts, and leaves as it was when it goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from cache_definitions import DEFINITIONS, served
from cluster_objects import changed
from conftest import Sandbox
from registries.hostile import HostileRegistry
from support.waiting import until
from test_kernel_cache_role import Role, all_namespaces_stay, gone

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.keys import CACHE_FINALIZER

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

# The kinds that GKM defines, with the scope of each.
GKM = {
    "GKMCache": "Namespaced",
    "ClusterGKMCache": "Cluster",
    "GKMCacheNode": "Namespaced",
    "ClusterGKMCacheNode": "Cluster",
}
CACHES = build_collection_path("gkm.io/v1alpha1", "gkmcaches", "default")
NAMESPACES = "/api/v1/namespaces"
LABELS = {"app.kubernetes.io/name": "gkm"}


@pytest.fixture
async def api(control_plane, cache_kinds) -> AsyncIterator[ApiClient]:
    """With accelkit's namespace and nobody's definitions; those of the test go at its end."""
    await cache_kinds.forget()
    async with ApiClient(load_connection(control_plane.kubeconfig)) as client:
        await until(lambda: all_namespaces_stay(client))
        await client.post(NAMESPACES, {"metadata": {"name": "accelkit"}})
        try:
            yield client
        finally:
            if await read_finalizers(client, "mine"):
                await client.patch(build_object_path(CACHES, "mine"), {"metadata": {"finalizers": []}})
            for kind in GKM:
                if await get_if_present(client, definition_path(kind)) is not None:
                    await client.delete(definition_path(kind))
                    await gone(client, definition_path(kind))
            await client.delete(f"{NAMESPACES}/accelkit")
            # Others make one of this name.
            await until(lambda: all_namespaces_stay(client), seconds=60)


@pytest.fixture
def role(control_plane: Sandbox, tmp_path):
    with HostileRegistry() as registry:
        yield Role(control_plane, tmp_path, registry)


def definition_path(kind: str) -> str:
    return f"{DEFINITIONS}/{kind.lower()}s.gkm.io"


async def define_as_gkm(api: ApiClient) -> None:
    """The four kinds, of a schema that is not ours."""
    for kind, scope in GKM.items():
        names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{kind.lower()}s", "singular": kind.lower()}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {
            "name": "v1alpha1",
            "served": True,
            "storage": True,
            "schema": schema,
            "subresources": {"status": {}},
        }
        spec = {"group": "gkm.io", "scope": scope, "names": names, "versions": [version]}
        metadata = {"name": f"{names['plural']}.gkm.io", "labels": LABELS}
        await api.post(DEFINITIONS, {"metadata": metadata, "spec": spec})
    for kind in GKM:
        path = build_collection_path("gkm.io/v1alpha1", f"{kind.lower()}s")
        await until(lambda path=path: served(api, path))


async def read_definitions(api: ApiClient) -> dict[str, Any]:
    """What users see of them: spec and labels."""
    found = {}
    for kind in GKM:
        each = json.loads(await api.get(definition_path(kind)))
        found[kind] = (each["spec"], each["metadata"].get("labels"))
    return found


async def create(api: ApiClient, name: str, finalizers: list[str]) -> None:
    metadata = {"name": name, "finalizers": finalizers}
    spec = {"image": "quay.io/acme/cache:v1"}
    await api.post(CACHES, {"apiVersion": "gkm.io/v1alpha1", "kind": "GKMCache", "metadata": metadata, "spec": spec})


async def read_finalizers(api: ApiClient, name: str) -> list[str] | None:
    """Of a cache; None where it is not there."""
    found = await get_if_present(api, build_object_path(CACHES, name))
    return None if found is None else msgspec.json.decode(found)["metadata"].get("finalizers", [])


async def has_finalizer(api: ApiClient, name: str) -> bool:
    return CACHE_FINALIZER in (await read_finalizers(api, name) or [])


async def is_being_deleted(api: ApiClient, path: str) -> bool:
    return "deletionTimestamp" in json.loads(await api.get(path))["metadata"]


@pytest.mark.long
async def test_removal_keeps_adopted_definitions_and_purges_caches_on_request(api, role):
    await define_as_gkm(api)
    cache_path = build_object_path(CACHES, "mine")
    await create(api, "mine", ["gkm.io.example/finalizer"])
    # accelkit serves nothing here yet, so nothing is its own to purge.
    role.run("remove", kernel_cache_purge=True)
    assert await read_finalizers(api, "mine") == ["gkm.io.example/finalizer"]

    adopt = {"kernel_cache_adopt": True}
    assert changed(role.run("apply", **adopt)) > 0
    adopted = await read_definitions(api)
    assert "mountPath" in json.dumps(adopted["GKMCache"])
    assert [labels for _, labels in adopted.values()] == [LABELS] * len(GKM)
    await until(lambda: has_finalizer(api, "mine"), seconds=120)
    said = " ".join(role.run("remove", **adopt).split())
    assert "GKMCache default mine belong to users and were not deleted" in said
    assert "set kernel_cache_purge: true to delete them too, except the definitions that another system created" in said
    assert await read_definitions(api) == adopted
    assert await read_finalizers(api, "mine") == ["gkm.io.example/finalizer"]

    # As the controller would, which has gone: it takes its finalizer off a cache that nobody uses.
    await api.patch(cache_path, {"metadata": {"finalizers": [CACHE_FINALIZER]}})
    removal = asyncio.create_task(asyncio.to_thread(role.run, "remove", kernel_cache_purge=True, **adopt))
    await until(lambda: is_being_deleted(api, cache_path), seconds=180)
    await api.patch(cache_path, {"metadata": {"finalizers": []}})
    await removal
    assert await read_finalizers(api, "mine") is None
    assert await read_definitions(api) == adopted


@pytest.mark.extended
async def test_preflight_refuses_gkm_operator_unless_adopted(api, role):
    await api.post(NAMESPACES, {"metadata": {"name": "gkm-system"}})
    labels = {"app": "gkm-operator"}
    pod = {"containers": [{"name": "operator", "image": "quay.io/gkm/operator:latest"}]}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    deployments = build_collection_path("apps/v1", "deployments", "gkm-system")
    await api.post(deployments, {"metadata": {"name": "gkm-operator"}, "spec": spec})
    try:
        said = " ".join(role.run("preflight", check=False).split())
        assert "the cluster already contains GKM's operator in gkm-system" in said
        assert "failed=1" in said
        assert changed(role.run("preflight", kernel_cache_adopt=True)) == 0
    finally:
        await api.delete(f"{NAMESPACES}/gkm-system")
