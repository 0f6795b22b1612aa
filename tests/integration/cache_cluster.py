"""A cluster with the kinds of kernel caches, the policies that guard them, and the webhook; as tests speak of it."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from impersonation import find_refusal
from ruamel.yaml import YAML
from support.waiting import DEADLINE, until
from webhook_registration import CONFIGURATIONS, build_configuration, read_handled_policies
from webhook_stand import CONFIGURATION, Stand

from accelkit.gkm.conditions import ConditionType, merge_conditions, state
from accelkit.gkm.names import CLUSTER_CACHES
from accelkit.gkm.objects import CacheStatus
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import delete_and_wait, delete_if_present, get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

FILES = Path(__file__).parents[2] / "roles" / "kernel_cache" / "files"
DIGEST = "sha256:" + "a1" * 32
PINNED = "-" + "a1" * 6
DRY = {"dryRun": "All"}
# As the role's defaults have them.
NAMES = {"kernel_cache_namespace": "accelkit", "kernel_cache_name": "accelkit-cache-controller"}
CONTROLLER = "system:serviceaccount:{{ kernel_cache_namespace }}:{{ kernel_cache_name }}"
Object = dict[str, Any]

_numbers = itertools.count()


def read_policies(controller: str = "") -> list[Object]:
    """The admission policies, as the role renders them; with another user as the controller where one is given."""
    text = (FILES / "writable_mounts.yaml.j2").read_text()
    if controller:
        text = text.replace(CONTROLLER, controller)
    for name, value in NAMES.items():
        text = text.replace("{{ " + name + " }}", value)
    return list(YAML(typ="safe", pure=True).load_all(text))


class CacheCluster:
    """The API server, in words of the tests."""

    def __init__(self, api: ApiClient, stand: Stand | None = None) -> None:
        self.api, self._stand = api, stand
        # Paths of what was added, in that order.
        self.made: list[str] = []
        self._namespaces: list[str] = []

    @property
    def stand(self) -> Stand:
        """The webhook's process."""
        assert self._stand is not None
        return self._stand

    async def set_up(self, controller: str = "") -> None:
        """Add the policies, where the kinds are defined, and the configuration of the webhook where there is one."""
        handled = read_handled_policies() if self._stand is not None else []
        for policy in [*read_policies(controller), *handled]:
            plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}
            plural["ValidatingAdmissionPolicyBinding"] = "validatingadmissionpolicybindings"
            await self._make(build_collection_path(policy["apiVersion"], plural[policy["kind"]]), policy)
        if self._stand is not None:
            await self.register()

    async def register(self) -> None:
        """Add the webhook's configuration, as the role does."""
        await self.api.post(CONFIGURATIONS, build_configuration(CONFIGURATION, self.stand.port, self.stand.authorities))

    async def tear_down(self) -> None:
        """Delete what was added."""
        await self.unregister()
        for path in reversed(self.made):
            await delete_and_wait(self.api, path, time.monotonic() + DEADLINE)

    async def delete_pods(self) -> None:
        """Delete the pods of its namespaces, which a scheduler would look at for ever."""
        for each in self._namespaces:
            await self.api.delete(build_collection_path("v1", "pods", each), {"gracePeriodSeconds": 0})

    async def unregister(self) -> None:
        """Delete the webhook's configuration, as somebody may who wants to get around it."""
        await delete_if_present(self.api, build_object_path(CONFIGURATIONS, CONFIGURATION))

    async def make_namespace(self, name: str = "") -> str:
        """A namespace of the test's own, whose pods can be made at once."""
        name = name or f"caches-{next(_numbers)}"
        await self.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        self._namespaces.append(name)
        account = build_object_path(build_collection_path("v1", "serviceaccounts", name), "default")
        await until(lambda: get_if_present(self.api, account))
        return name

    async def make_cache(self, namespace: str, name: str = "kernels", **status: Any) -> None:
        """A cache that is verified; of the cluster, for `spread`, where that is given."""
        spread = status.pop("spread", ())
        spec: Object = {"image": "registry.example/cache:v1", **({"workloadNamespaces": spread} if spread else {})}
        collection = CLUSTER_CACHES if spread else build_collection_path("gkm.io/v1alpha1", "gkmcaches", namespace)
        kind = "ClusterGKMCache" if spread else "GKMCache"
        body = {"apiVersion": "gkm.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.api.post(collection, body)
        verified = [state(ConditionType.VERIFIED, "Verified", "by a test", holds=True)]
        conditions = merge_conditions([], verified, now="2026-01-01T00:00:00Z")
        fields = {"resolved_digest": DIGEST, "mount_path": "/cache", "delivery": "node", "cache_bytes": 4096}
        told = CacheStatus(conditions=conditions, **{**fields, **status})
        patch = {"status": msgspec.to_builtins(told)}
        await self.api.patch(f"{build_object_path(collection, name)}/status", patch)

    async def create(self, namespace: str, pod: Object, *, dry: bool = False) -> Object:
        """Create a pod; return it as it was stored."""
        path = build_collection_path("v1", "pods", namespace)
        created: Object = msgspec.json.decode(await self.api.post(path, pod, query=DRY if dry else None))
        return created

    async def refusal(self, namespace: str, pod: Object) -> str:
        """Why a pod is not created; empty where it would be."""
        return await find_refusal(self.create(namespace, pod, dry=True))

    async def _make(self, collection: str, body: Object) -> None:
        path = build_object_path(collection, body["metadata"]["name"])
        await self.api.post(collection, body)
        self.made.append(path)


@contextmanager
def guarding(
    kubeconfig: Path,
    stand: Stand | None = None,
    *,
    controller: str = "",
    wait: Callable[[CacheCluster], Awaitable[None]] | None = None,
) -> Iterator[Path]:
    """Have the policies in a cluster for as long as the block, from when `wait` returns; yields its kubeconfig."""
    made: list[str] = []

    async def do(action: Callable[[CacheCluster], Awaitable[None]]) -> None:
        async with ApiClient(load_connection(kubeconfig)) as api:
            cluster = CacheCluster(api, stand)
            cluster.made = made
            await action(cluster)

    try:
        asyncio.run(do(lambda cluster: cluster.set_up(controller)))
        if wait is not None:
            asyncio.run(do(wait))
        yield kubeconfig
    finally:
        if stand is not None:
            stand.stop()
        asyncio.run(do(CacheCluster.tear_down))


@asynccontextmanager
async def open_cluster(kubeconfig: Path, stand: Stand | None = None) -> AsyncIterator[CacheCluster]:
    """The cluster, left without pods of its namespaces."""
    async with ApiClient(load_connection(kubeconfig)) as api:
        cluster = CacheCluster(api, stand)
        yield cluster
        await cluster.delete_pods()


def make_pod(*mounts: Object, claim: str = "kernels", **fields: Any) -> Object:
    """A pod with a container that has these mounts of the volume `files`."""
    name = f"pod-{next(_numbers)}"
    containers = [{"name": "main", "image": "workload", "volumeMounts": list(mounts)}]
    volume = {"name": "files", "persistentVolumeClaim": {"claimName": claim}} if claim else None
    spec = {"containers": containers, "volumes": [volume] if volume else [], **fields.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **fields}, "spec": spec}


def owning(*volumes: str, pod: str = "", generated: str = "") -> Object:
    """A pod with generic ephemeral volumes, whose claims are POD-VOLUME."""
    made = make_pod(claim="")
    made["metadata"] = {"generateName": generated} if generated else {"name": pod}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    template = {"volumeClaimTemplate": {"spec": spec}}
    made["spec"]["volumes"] = [{"name": each, "ephemeral": template} for each in volumes]
    return made


def mount(path: str = "/cache", **fields: Any) -> Object:
    """A mount of the volume `files`."""
    return {"name": "files", "mountPath": path, **fields}
