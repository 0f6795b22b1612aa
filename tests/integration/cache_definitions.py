"""The kinds of kernel caches on a sandbox's API server, for all test files that need them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from impersonation import is_done
from ruamel.yaml import YAML
from support.waiting import until

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


class CacheKinds:
    """The kinds in a sandbox, from when the first test needs them until one needs a cluster without.

    To define and to forget them takes seconds, so test files share them and delete their objects.

    Args:
        sandbox: with a kubeconfig.
    """

    def __init__(self, sandbox: Any) -> None:
        self._sandbox = sandbox
        self._known = False
        self.definitions = [YAML(typ="safe", pure=True).load(each.read_text()) for each in sorted(FOLDER.iterdir())]

    @property
    def names(self) -> set[str]:
        """Of the definitions."""
        return {each["metadata"]["name"] for each in self.definitions}

    async def define(self) -> None:
        """Return when the API server serves the kinds as they are installed."""
        if self._known:
            return
        async with ApiClient(load_connection(self._sandbox.kubeconfig)) as api:
            for each in self.definitions:
                await api.patch(f"{DEFINITIONS}/{each['metadata']['name']}", each, kind="apply", query=STRICT)
            for each in self.definitions:
                await until(partial(established, api, each["metadata"]["name"]), seconds=90, every=0.1)
            for path in PLURALS.values():
                # Established is written before each of its handlers is there.
                await until(partial(served, api, path), seconds=90, every=0.1)
        self._known = True

    async def empty(self) -> None:
        """Delete all objects of the kinds, so that no other test's programs find them."""
        if not self._known:
            return
        async with ApiClient(load_connection(self._sandbox.kubeconfig)) as api:
            for path in PLURALS.values():
                collections = {find_collection(path, each) for each in await list_metadata(api, path)}
                await asyncio.gather(*(api.delete(each) for each in collections))
            for path in PLURALS.values():
                await until(partial(nothing, api, path), seconds=90, every=0.1)

    async def forget(self) -> None:
        """Return when the API server knows none of the kinds."""
        if not self._known:
            return
        paths = [f"{DEFINITIONS}/{each}" for each in self.names]
        async with ApiClient(load_connection(self._sandbox.kubeconfig)) as api:
            await asyncio.gather(*(api.delete(each) for each in paths))
            for path in [*paths, "/apis/gkm.io/v1alpha1", "/apis/accelkit.io/v1alpha1"]:
                await until(partial(gone, api, path), seconds=90, every=0.1)
        self._known = False


async def list_metadata(api: ApiClient, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(await api.get(path))["items"]
    return [each["metadata"] for each in found]


async def nothing(api: ApiClient, path: str) -> bool:
    return not await list_metadata(api, path)


def find_collection(path: str, metadata: Mapping[str, Any]) -> str:
    """Return the collection in which an object is, of those of all namespaces."""
    group, _, plural = path.rpartition("/")
    return f"{group}/namespaces/{metadata['namespace']}/{plural}" if "namespace" in metadata else path


async def established(api: ApiClient, name: str) -> bool:
    status = json.loads(await api.get(f"{DEFINITIONS}/{name}")).get("status", {})
    return "True" in [each["status"] for each in status.get("conditions") or () if each["type"] == "Established"]


async def served(api: ApiClient, path: str) -> bool:
    return await is_done(api.get(path))


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
