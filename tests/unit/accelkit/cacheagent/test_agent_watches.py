"""What the agent sees of the cluster, also where objects cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from agent_worlds import MOUNT, A
from fake_api.watches import WatchedApi
from support.waiting import until

from accelkit.cacheagent.watches import Watches
from accelkit.gkm import names
from accelkit.kube.paths import NODES, PODS, build_collection_path

Json = dict[str, Any]


def meta(name: str, namespace: str = "", **more: Any) -> Json:
    return {"name": name, "uid": f"uid-{namespace}-{name}", **({"namespace": namespace} if namespace else {}), **more}


def cache(name: str = "add", namespace: str = "team", **status: Any) -> Json:
    verified = {"type": "Verified", "status": "True", "reason": "Verified"}
    told = {"resolvedDigest": A, "mountPath": MOUNT, "delivery": "node", "conditions": [verified], **status}
    return {"metadata": meta(name, namespace), "spec": {"image": "q.io/team/add:v1"}, "status": told}


def pod(name: str = "p", **spec: Any) -> Json:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "add"}}]
    whole = {"nodeName": "n", "containers": [{"name": "main"}], "volumes": volumes, **spec}
    return {"metadata": meta(name, "team"), "spec": whole, "status": {"phase": "Pending"}}


def caches(namespace: str = "team") -> str:
    return build_collection_path(names.API, "gkmcaches", namespace)


class Seen:
    def __init__(self) -> None:
        self.api = WatchedApi()
        self.changes = 0
        self.watches = Watches(self.api, "n", self.note)
        self.api.store(NODES, {"metadata": meta("n"), "status": {"nodeInfo": {"architecture": "amd64"}}})

    def note(self) -> None:
        self.changes += 1

    async def until(self, question: Callable[[Watches], object]) -> Watches:
        await until(lambda: question(self.watches))
        return self.watches


@pytest.fixture
async def seen() -> AsyncIterator[Seen]:
    seen = Seen()
    tasks = [asyncio.create_task(loop) for loop in seen.watches.list_loops()]
    yield seen
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_caches_of_both_scopes_are_added_and_removed(seen):
    seen.api.store(caches(), cache())
    seen.api.store(names.CLUSTER_CACHES, cache(namespace=""))
    await seen.until(lambda watches: watches.synced and set(watches.desired_caches) == {"team/add", "/add"})
    seen.api.objects.pop(f"{caches()}/add")
    await seen.until(lambda watches: set(watches.desired_caches) == {"/add"})
    assert seen.changes


async def test_cache_without_delivery_is_ignored(seen):
    seen.api.store(caches(), cache(delivery=""))
    seen.api.store(caches(), cache("other"))
    watches = await seen.until(lambda watches: watches.desired_caches)
    assert set(watches.desired_caches) == {"team/other"}


@pytest.mark.parametrize(
    "status", [{"resolvedDigest": "sha256:x"}, {"mountPath": "/a/../b"}, {"conditions": 5}, {"mountPath": ["/a"]}]
)
async def test_unreadable_cache_is_recorded_until_corrected(seen, status):
    seen.api.store(caches(), cache(**status))
    watches = await seen.until(lambda watches: watches.unreadable)
    assert (set(watches.unreadable), watches.desired_caches) == ({"team/add"}, {})
    seen.api.store(caches(), cache())
    await seen.until(lambda watches: watches.desired_caches and not watches.unreadable)


async def test_pods_of_node_are_listed_while_starting(seen):
    waiting = {"state": {"waiting": {"reason": "ContainerCreating"}}, "restartCount": 0}
    seen.api.store(PODS, {**pod(), "status": {"phase": "Running", "containerStatuses": [waiting]}})
    watches = await seen.until(lambda watches: watches.pods)
    (found,) = watches.pods.values()
    assert (str(found), found.starting, found.readable) == ("team/p", True, True)
    seen.api.store(PODS, {**pod(), "status": {"phase": "Succeeded"}})
    await seen.until(lambda watches: not watches.pods)


async def test_unreadable_pod_is_kept_until_deleted(seen):
    seen.api.store(PODS, pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": 5}}]))
    watches = await seen.until(lambda watches: watches.pods)
    (found,) = watches.pods.values()
    assert (str(found), found.readable, found.claims) == ("team/p", False, frozenset())
    seen.api.objects.pop(f"{build_collection_path('v1', 'pods', 'team')}/p")
    await seen.until(lambda watches: not watches.pods)


@pytest.mark.parametrize("spec", [5, [], "x"])
async def test_unreadable_policy_is_listed_as_invalid(seen, spec):
    seen.api.store(names.SIGNER_POLICIES, {"metadata": meta("acme"), "spec": spec})
    watches = await seen.until(lambda watches: watches.policies)
    assert watches.policies == {"acme": None}
    before = watches.policies_version
    seen.api.objects.pop(f"{names.SIGNER_POLICIES}/acme")
    await seen.until(lambda watches: not watches.policies)
    assert watches.policies_version > before


async def test_watches_are_not_synced_without_node(seen):
    await seen.until(lambda watches: watches.synced)
    seen.api.objects.pop(f"{NODES}/n")
    watches = await seen.until(lambda watches: watches.node is None)
    assert not watches.synced


async def test_own_reports_are_listed_by_namespace(seen):
    path = build_collection_path(names.API, "gkmcachenodes", "team")
    seen.api.store(path, {"metadata": meta("n", "team"), "status": {"nodeName": "n"}})
    seen.api.store(path, {"metadata": meta("other", "team"), "status": {"nodeName": "other"}})
    watches = await seen.until(lambda watches: watches.reports)
    assert {namespace: each.node_name for namespace, each in watches.reports.items()} == {"team": "n"}
    seen.api.objects.pop(f"{path}/n")
    await seen.until(lambda watches: not watches.reports)
