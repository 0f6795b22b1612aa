"""The kinds of kernel caches on a sandbox's API server, for as long as a test file needs them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOLDER = Path(__file__).parents[2] / "roles" / "kernel_cache" / "files" / "crds"
STRICT = {"fieldValidation": "Strict", "fieldManager": "tests"}
DRY = {**STRICT, "dryRun": "All"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PLURALS = {
    "GKMCache": names.CACHES,
    "ClusterGKMCache": names.CLUSTER_CACHES,
    "GKMCacheNode": names.CACHE_NODES,
    "ClusterGKMCacheNode": names.CLUSTER_CACHE_NODES,
    "SignerPolicy": names.SIGNER_POLICIES,
}


@contextmanager
def cache_definitions(sandbox: Any, namespace: str) -> Iterator[set[str]]:
    """The API server knows the kinds as they are installed, and there is a namespace; yields the names of the CRDs."""
    crds = [YAML(typ="safe", pure=True).load(each.read_text()) for each in sorted(FOLDER.iterdir())]
    asyncio.run(install(sandbox, crds, namespace))
    try:
        yield {each["metadata"]["name"] for each in crds}
    finally:
        asyncio.run(remove(sandbox, crds, namespace))


async def install(sandbox: Any, crds: list[dict[str, Any]], namespace: str) -> None:
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        for each in crds:
            await api.patch(f"{DEFINITIONS}/{each['metadata']['name']}", each, kind="apply", query=STRICT)
        for each in crds:
            await until(lambda name=each["metadata"]["name"]: established(api, name), each["metadata"]["name"])
        for path in PLURALS.values():
            # Established is written before each of its handlers is there.
            await until(lambda path=path: served(api, path), f"{path} is not served")
        await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})


async def remove(sandbox: Any, crds: list[dict[str, Any]], namespace: str) -> None:
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        paths = [f"{DEFINITIONS}/{each['metadata']['name']}" for each in crds] + [f"/api/v1/namespaces/{namespace}"]
        for path in paths:
            await api.delete(path)
        for path in paths:
            await until(lambda path=path: gone(api, path), f"{path} stays")


async def until(accept: Any, what: str) -> None:
    deadline = time.monotonic() + 90
    while not await accept():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.1)


async def established(api: ApiClient, name: str) -> bool:
    status = json.loads(await api.get(f"{DEFINITIONS}/{name}")).get("status", {})
    return "True" in [each["status"] for each in status.get("conditions", ()) if each["type"] == "Established"]


async def served(api: ApiClient, path: str) -> bool:
    return not await gone(api, path)


async def gone(api: ApiClient, path: str) -> bool:
    try:
        await api.get(path)
    except ApiError as exc:
        return exc.status == 404
    return False


def build_path(kind: str, namespace: str) -> str:
    """Return where objects of a kind are; of a namespaced one, in that namespace."""
    collection = PLURALS[kind]
    if kind not in ("GKMCache", "GKMCacheNode"):
        return collection
    group, _, plural = collection.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}"


def manifest(kind: str, name: str = "x", **more: Any) -> dict[str, Any]:
    version = names.POLICY_API if kind == "SignerPolicy" else names.API
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def cache(kind: str = "GKMCache", name: str = "x", **spec: Any) -> dict[str, Any]:
    return manifest(kind, name, spec={"image": "quay.io/acme/cache:v1", **spec})


class CacheApi:
    """The API server, asked for kernel caches in one namespace."""

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self.api = api
        self.namespace = namespace

    def path(self, kind: str) -> str:
        return build_path(kind, self.namespace)

    async def take(self, each: Mapping[str, Any]) -> dict[str, Any]:
        """Return an object as it would be kept."""
        taken: dict[str, Any] = json.loads(await self.api.post(self.path(each["kind"]), each, query=DRY))
        return taken

    async def refusal(self, each: Mapping[str, Any]) -> str:
        """Return in which words an object is refused, as it must be."""
        with pytest.raises(ApiError) as caught:
            await self.take(each)
        assert caught.value.status in (400, 422)
        return caught.value.message

    async def table(self, kind: str, name: str) -> dict[str, Any]:
        """Return the columns of an object, as kubectl asks for them, by name; None is an empty cell."""
        answer = json.loads(await self.api.get(f"{self.path(kind)}/{name}", headers=TABLE))
        (row,) = answer["rows"]
        return {column["name"]: cell for column, cell in zip(answer["columnDefinitions"], row["cells"], strict=True)}
