"""What is in a sandbox's cluster, whole, and who may do what there."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.paths import NODES, build_collection_path, build_group_path, build_secrets_path

Json = dict[str, Any]

RBAC = build_group_path("rbac.authorization.k8s.io/v1")
# What kubelets and controllers change all the time.
VOLATILE = (
    "managedFields",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "lastHeartbeatTime",
    "lastTransitionTime",
    "lastUpdateTime",
)
# The last that a node controller writes to a new node.
_TTL = "node.alpha.kubernetes.io/ttl"
# Kinds that come and go, and Leases, which say who leads just now.
PASSING = ("Event", "ComponentStatus", "Lease")


async def objects(sandbox: Any) -> dict[str, Json]:
    """All objects of all kinds that the API server lists, whole."""
    found: dict[str, Json] = {}
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        groups = json.loads(await api.get("/apis"))["groups"]
        for version in ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]:
            for resource in json.loads(await api.get(version))["resources"]:
                if "list" not in resource["verbs"] or resource["kind"] in PASSING:
                    continue
                for item in json.loads(await api.get(f"{version}/{resource['name']}"))["items"]:
                    metadata = item["metadata"]
                    name = f"{version}/{resource['name']} {metadata.get('namespace', '')}/{metadata['name']}"
                    found[name] = stable(item)
    return found


async def nodes(sandbox: Any) -> list[Json]:
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        return [stable(node) for node in json.loads(await api.get(NODES))["items"]]


async def settled_nodes(sandbox: Any, count: int) -> list[Json]:
    """The nodes, once they are ready and the node controllers are done with their arrival."""

    def are_settled(found: list[Json]) -> bool:
        return len(found) == count and all(
            "taints" not in node["spec"] and _TTL in _annotations(node) for node in found
        )

    found: list[Json] = await until(lambda: nodes(sandbox), accept=are_settled, seconds=180, every=0.2)
    return found


def _annotations(node: Json) -> Json:
    return node["metadata"].get("annotations") or {}


async def settled_objects(sandbox: Any) -> dict[str, Json]:
    """All objects, once controllers change no more of them: they write rights and annotations after the start."""
    deadline = time.monotonic() + 180
    before: dict[str, Json] = {}
    while (now := await objects(sandbox)) != before:
        assert time.monotonic() < deadline, "the cluster's objects change all the time"
        before = now
        await asyncio.sleep(2)
    return now


async def as_before(sandbox: Any, before: dict[str, Json]) -> None:
    """Wait until all objects are what they were; those in a namespace that goes take their time."""

    async def list_differences() -> Json:
        after = await objects(sandbox)
        differing = {name: (before.get(name), after.get(name)) for name in before.keys() | after.keys()}
        return {name: pair for name, pair in differing.items() if pair[0] != pair[1]}

    await until(list_differences, accept=lambda differing: not differing, seconds=180, every=0.5)


def load_yaml(path: Path) -> Json:
    document: Json = YAML(typ="safe", pure=True).load(path.read_text())
    return document


async def kubeconfig_of(sandbox: Any, name: str, role: Json) -> Path:
    """Make a user with the rules of this role and nothing else; return its kubeconfig."""
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        accounts = build_collection_path("v1", "serviceaccounts", "default")
        await api.post(accounts, {"metadata": {"name": name}})
        await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": f"test-{name}"}, "rules": role["rules"]})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"test-{name}"}
        binding = {"metadata": {"name": f"test-{name}"}, "roleRef": reference, "subjects": [subject]}
        await api.post(f"{RBAC}/clusterrolebindings", binding)
    return await kubeconfig_of_account(sandbox, name, "default")


async def kubeconfig_of_account(sandbox: Any, name: str, namespace: str = "accelkit") -> Path:
    """Return a kubeconfig with a token of a ServiceAccount."""
    account = f"{build_collection_path('v1', 'serviceaccounts', namespace)}/{name}"
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        token = json.loads(await api.post(f"{account}/token", {"spec": {}}))["status"]["token"]
    document = load_yaml(sandbox.kubeconfig)
    document["users"][0]["user"] = {"token": token}
    path: Path = sandbox.paths.root.parent / f"{name}.kubeconfig"
    path.write_text(json.dumps(document))
    return path


async def create_pull_secret(sandbox: Any) -> None:
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        secret = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": '{"auths": {}}'}}
        await api.post(build_secrets_path("default"), {"metadata": {"name": "registry"}, **secret})


async def find_pull_secrets(sandbox: Any) -> list[str]:
    """The namespaces that have the Secret."""
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        found = json.loads(await api.get("/api/v1/secrets"))["items"]
    return sorted(each["metadata"]["namespace"] for each in found if each["metadata"]["name"] == "registry")


def stable(value: Any) -> Any:
    """A value without what changes all the time."""
    if isinstance(value, dict):
        return {key: stable(entry) for key, entry in value.items() if key not in VOLATILE}
    return [stable(entry) for entry in value] if isinstance(value, list) else value


def changed(output: str) -> int:
    return sum(int(count) for count in re.findall(r"changed=(\d+)", output.partition("PLAY RECAP")[2]))
