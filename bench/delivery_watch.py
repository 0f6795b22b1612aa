"""Caches and Jobs in the cluster of a benchmark: created, waited for, removed; and the memory of the agents there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec
from delivery_job import run

from accelkit.gkm.conditions import ConditionType, holds
from accelkit.gkm.names import API, SIGNER_POLICIES
from accelkit.gkm.objects import Cache, CacheNode
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import create_or_replace, delete_and_wait, delete_if_present
from accelkit.kube.paths import build_collection_path, build_config_maps_path, build_object_path

NAMESPACE = "accelkit-bench"
NAMESPACES = build_collection_path("v1", "namespaces")
CACHES = build_collection_path(API, "gkmcaches", NAMESPACE)
NODES = build_collection_path(API, "gkmcachenodes", NAMESPACE)
JOBS = build_collection_path("batch/v1", "jobs", NAMESPACE)
POLICY = "accelkit-bench"
DEADLINE_SECONDS = 900.0
# Much less than what is measured; each look is one list.
POLL_SECONDS = 0.05
# Where each look is at hundreds.
POLL_MANY_SECONDS = 0.5
# Of which the highest use of memory is asked, and set back.
AGENT = "accelkit cache-agent"


class _Caches(msgspec.Struct):
    items: list[Cache]


class _CacheNodes(msgspec.Struct):
    items: list[CacheNode]


class _JobStatus(msgspec.Struct):
    succeeded: int = 0
    failed: int = 0


class _Job(msgspec.Struct):
    status: _JobStatus = msgspec.field(default_factory=_JobStatus)


@dataclass(frozen=True)
class Delivered:
    """Seconds from the creation of caches until all of them are there.

    Attributes:
        on_nodes: until each node reports each as Ready.
        ready: until each is Ready as a whole, for which its claims have to be there as well.
    """

    on_nodes: float
    ready: float


class Cluster:
    """The cluster, by its API server, and the nodes that are to have each cache."""

    def __init__(self, api: ApiClient, nodes: list[str]) -> None:
        self._api = api
        self._nodes = nodes

    async def prepare(self, images: str, key: str) -> None:
        """Make the namespace, the policy that covers the images, and the Jobs' key."""
        await create_or_replace(self._api, NAMESPACES, NAMESPACE, _name("v1", "Namespace", NAMESPACE))
        keys = {**_name("v1", "ConfigMap", "bench-keys"), "data": {"cosign.pub": key}}
        await create_or_replace(self._api, build_config_maps_path(NAMESPACE), "bench-keys", keys)
        signer = {"key": {"data": key}, "transparencyLog": "notRequired"}
        policy = _name("accelkit.io/v1alpha1", "SignerPolicy", POLICY)
        # Of a run that was ended.
        await delete_if_present(self._api, build_object_path(SIGNER_POLICIES, POLICY))
        await self._api.post(SIGNER_POLICIES, {**policy, "spec": {"images": [images], "signers": [signer]}})

    async def clean(self) -> None:
        """Delete all of it, caches first, since they want their nodes to let go."""
        listed = msgspec.json.decode(await self._api.get(CACHES), type=_Caches).items
        await self.remove([each.metadata.name for each in listed])
        await delete_if_present(self._api, build_object_path(SIGNER_POLICIES, POLICY))
        deadline = time.monotonic() + DEADLINE_SECONDS
        await delete_and_wait(self._api, build_object_path(NAMESPACES, NAMESPACE), deadline)

    async def deliver(self, images: Mapping[str, str]) -> Delivered:
        """Create caches, all at once, and return the seconds until each is Ready, on every node and as a whole."""
        began = time.monotonic()
        wanted = ({**_name(API, "GKMCache", name), "spec": {"image": image}} for name, image in images.items())
        # All at once: each is let in only when pods that mount it are sent to the webhook.
        await asyncio.gather(*(self._api.post(CACHES, each) for each in wanted))
        waiting, outside, on_nodes = {*images}, {*images}, 0.0

        async def ready() -> bool:
            nonlocal on_nodes
            caches = msgspec.json.decode(await self._api.get(CACHES), type=_Caches).items
            nodes = msgspec.json.decode(await self._api.get(NODES), type=_CacheNodes).items
            there = find_on_nodes(caches, nodes, self._nodes)
            outside.difference_update(each.metadata.name for each in there)
            on_nodes = on_nodes or (0.0 if outside else time.monotonic() - began)
            waiting.difference_update(find_ready(there))
            return not waiting

        pause = POLL_SECONDS if len(images) == 1 else POLL_MANY_SECONDS
        await _until(ready, lambda: f"{len(waiting)} caches are not ready: {', '.join(sorted(waiting)[:5])}", pause)
        return Delivered(on_nodes, time.monotonic() - began)

    async def remove(self, names: Iterable[str]) -> None:
        """Delete caches, and wait until they are gone."""
        going = {*names}
        await asyncio.gather(*(delete_if_present(self._api, build_object_path(CACHES, name)) for name in going))

        async def gone() -> bool:
            listed = msgspec.json.decode(await self._api.get(CACHES), type=_Caches).items
            going.intersection_update(each.metadata.name for each in listed)
            return not going

        await _until(gone, lambda: f"{len(going)} caches are not deleted", POLL_MANY_SECONDS)

    async def run_job(self, job: dict[str, object]) -> float:
        """Create a Job, return the seconds until all of its pods are through, and delete it with them."""
        began = time.monotonic()
        await self._api.post(JOBS, job)
        path = build_object_path(JOBS, job["metadata"]["name"])  # type: ignore[index]
        wanted: int = job["spec"]["completions"]  # type: ignore[index]

        async def through() -> bool:
            status = msgspec.json.decode(await self._api.get(path), type=_Job).status
            if status.failed:
                logs = run("kubectl", "logs", "--namespace", NAMESPACE, f"job/{path.rpartition('/')[2]}")
                raise SystemExit(f"a pod of the Job failed: {logs[-800:]}")
            return status.succeeded == wanted

        await _until(through, lambda: f"the Job {path} does not end")
        seconds = time.monotonic() - began
        await self._api.delete(path, {"propagationPolicy": "Foreground"})
        return seconds


def find_on_nodes(caches: Iterable[Cache], nodes: Iterable[CacheNode], wanted: Iterable[str]) -> list[Cache]:
    """Return the caches whose resolved digest each of some nodes reports as Ready."""
    reports = {each.metadata.name: each.status.caches for each in nodes}

    def on_node(cache: Cache, node: str) -> bool:
        found = reports.get(node, {}).get(cache.metadata.name, {}).get(cache.status.resolved_digest)
        return found is not None and holds(found.conditions, ConditionType.READY)

    return [cache for cache in caches if all(on_node(cache, node) for node in wanted)]


def find_ready(caches: Iterable[Cache]) -> set[str]:
    """Return the names of the caches that are Ready as a whole."""
    return {cache.metadata.name for cache in caches if holds(cache.status.conditions, ConditionType.READY)}


def reset_peaks(nodes: Iterable[str]) -> None:
    """Have the kernel of each node count the agent's highest use of memory anew."""
    for node in nodes:
        _request_agents(node, 'echo 5 > "/proc/$pid/clear_refs"')


def read_peaks(nodes: Iterable[str]) -> list[int]:
    """Return the agents' highest resident memory since then, in MiB, one for each of their processes."""
    kilobytes = [
        line
        for node in nodes
        for line in _request_agents(node, 'grep VmHWM "/proc/$pid/status"').split()
        if line.isdigit()
    ]
    if not kilobytes:
        raise SystemExit("no node runs a cache agent")
    return [int(each) // 1024 for each in kilobytes]


def _request_agents(node: str, command: str) -> str:
    # By what the shell itself can do, so that no process of the search has these words too.
    script = f"""
for folder in /proc/[0-9]*; do
  pid=${{folder#/proc/}} words=$(tr '\\0' ' ' < "$folder/cmdline" 2> /dev/null) || continue
  case $words in *"{AGENT}"*) {command} || true ;; esac
done
"""
    return run("docker", "exec", "--interactive", node, "sh", stdin=script.encode())


async def _until(done: Callable[[], Awaitable[bool]], why: Callable[[], str], pause: float = POLL_SECONDS) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not await done():
        if time.monotonic() > deadline:
            raise SystemExit(f"after {DEADLINE_SECONDS:.0f} s {why()}")
        await asyncio.sleep(pause)


def _name(api_version: str, kind: str, name: str) -> dict[str, object]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
