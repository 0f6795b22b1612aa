"""Reports are written where they differ, with times that say since when, and one namespace holds up no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from support.tasks import running
from support.waiting import until

from accelkit.cacheagent.reporting import status_writer
from accelkit.cacheagent.reporting.status_patch import build_status_patch
from accelkit.cacheagent.reporting.status_writer import StatusWriter
from accelkit.errors import ApiError
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import CachePod, NodeCacheStatus, NodeStatus

THEN, NOW = "2026-11-24T00:00:00Z", "2026-11-24T01:00:00Z"


def status(*, ready: bool = True, pods: int = 0, name: str = "add", digest: str = "sha256:a") -> NodeStatus:
    conditions = [state(ConditionType.READY, Reason.READY if ready else Reason.PENDING, holds=ready)]
    entry = NodeCacheStatus(conditions=conditions, pods=[CachePod("team", f"p{number}") for number in range(pods)])
    return NodeStatus(node_name="n", caches={name: {digest: entry}})


def merge_patch(target: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(target)
    for key, value in changes.items():
        merged[key] = merge_patch(merged.get(key, {}), value) if isinstance(value, dict) else value
    return {key: value for key, value in merged.items() if value is not None}


def written(known: NodeStatus | None, wanted: NodeStatus, now: str = THEN) -> NodeStatus:
    """What an API server has after the patch: a merge patch of known."""
    patch = build_status_patch(known, wanted, now)
    assert patch is not None
    return msgspec.convert(merge_patch(msgspec.to_builtins(known or NodeStatus()), patch["status"]), NodeStatus)


def test_what_stands_there_already_is_not_written():
    known = written(None, status())
    assert build_status_patch(known, status(), NOW) is None
    assert known.last_updated == THEN


def test_a_time_changes_with_the_status_of_its_condition_alone():
    known = written(None, status(pods=1))
    more = written(known, status(pods=2), NOW)
    (condition,) = more.caches["add"]["sha256:a"].conditions
    assert (condition.last_transition_time, more.last_updated) == (THEN, NOW)
    lost = written(more, status(ready=False, pods=2), NOW)
    assert lost.caches["add"]["sha256:a"].conditions[0].last_transition_time == NOW


@pytest.mark.parametrize("wanted", [status(name="other"), status(digest="sha256:b"), NodeStatus(node_name="n")])
def test_what_is_gone_is_taken_out(wanted):
    after = written(written(None, status()), wanted, NOW)
    assert {name: set(each) for name, each in after.caches.items()} == {
        name: set(each) for name, each in wanted.caches.items()
    }


class Cluster:
    """An API server for reports alone, that fails where a test says so."""

    def __init__(self) -> None:
        self.stored: dict[str, dict] = {}
        self.calls: list[tuple[str, str]] = []
        self.fails: Callable[[str], bool] = lambda _path: False

    def _note(self, verb: str, path: str) -> None:
        self.calls.append((verb, path))
        if self.fails(path):
            raise ApiError("the namespace is being terminated", status=403)

    async def post(self, path: str, body: dict) -> bytes:
        self._note("post", path)
        name = f"{path}/{body['metadata']['name']}"
        if name in self.stored:
            raise ApiError("it exists", status=409, reason="AlreadyExists")
        self.stored[name] = {**body, "status": {}}
        return msgspec.json.encode(self.stored[name])

    async def get(self, path: str) -> bytes:
        self._note("get", path)
        return msgspec.json.encode(self.stored[path])

    async def patch(self, path: str, body: dict) -> bytes:
        self._note("patch", path)
        known = self.stored[path.removesuffix("/status")]
        known["status"] = merge_patch(known["status"], body["status"])
        return msgspec.json.encode(known)

    async def delete(self, path: str, *_: object) -> bytes:
        self._note("delete", path)
        self.stored.pop(path, None)
        return b"{}"


@asynccontextmanager
async def writing(cluster: Cluster, known: dict[str, NodeStatus] | None = None) -> AsyncIterator[StatusWriter]:
    writer = StatusWriter(cluster, "n", known if known is not None else {})  # type: ignore[arg-type]
    async with running(writer.run()):
        yield writer


def path(namespace: str) -> str:
    return f"/apis/gkm.io/v1alpha1/namespaces/{namespace}/gkmcachenodes/n"


CLUSTER = "/apis/gkm.io/v1alpha1/clustergkmcachenodes/n"


async def test_a_report_is_made_labelled_and_deleted_when_nothing_is_to_be_told(monkeypatch):
    monkeypatch.setattr(status_writer, "_GATHER_SECONDS", 0.0)
    cluster = Cluster()
    async with writing(cluster) as writer:
        writer.offer({"team": status(), "": status()}, "uid-1")
        await until(lambda: all(cluster.stored.get(each, {}).get("status") for each in (path("team"), CLUSTER)))
        made = cluster.stored[path("team")]
        # Kubernetes deletes it with the node.
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid-1"}
        labels = {"kubernetes.io/hostname": "n"}
        assert made["metadata"] == {"name": "n", "labels": labels, "ownerReferences": [owner], "namespace": "team"}
        assert (made["kind"], cluster.stored[CLUSTER]["kind"]) == ("GKMCacheNode", "ClusterGKMCacheNode")
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: CLUSTER not in cluster.stored)
        assert path("team") in cluster.stored


async def test_a_namespace_that_takes_no_report_holds_up_no_other(monkeypatch):
    monkeypatch.setattr(status_writer, "_GATHER_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "_RETRY_SECONDS", (3600.0, 3600.0))
    cluster = Cluster()
    cluster.fails = lambda each: "/leaving/" in each
    async with writing(cluster) as writer:
        writer.offer({"leaving": status()}, "uid-1")
        await until(lambda: bool(cluster.calls))
        for pods in range(3):
            writer.offer({"leaving": status(), "team": status(pods=pods)}, "uid-1")
            await until(lambda pods=pods: len(_pods(cluster)) == pods and path("team") in cluster.stored)
    assert len([each for _, each in cluster.calls if "/leaving/" in each]) == 1


def _pods(cluster: Cluster) -> list:
    entry = cluster.stored.get(path("team"), {}).get("status", {}).get("caches", {}).get("add", {})
    return entry.get("sha256:a", {}).get("pods", [])


async def test_what_failed_is_written_when_its_time_has_come(monkeypatch):
    monkeypatch.setattr(status_writer, "_GATHER_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "_RETRY_SECONDS", (0.02, 0.02))
    cluster = Cluster()
    cluster.fails = lambda _path: len(cluster.calls) < 4
    async with writing(cluster) as writer:
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: bool(cluster.stored.get(path("team"), {}).get("status")))


async def test_a_report_that_somebody_deleted_is_made_again(monkeypatch):
    monkeypatch.setattr(status_writer, "_GATHER_SECONDS", 0.0)
    cluster, known = Cluster(), {}
    async with writing(cluster, known) as writer:
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: bool(cluster.stored.get(path("team"), {}).get("status")))
        cluster.stored.clear()
        # As the watch tells.
        known.clear()
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: bool(cluster.stored.get(path("team"), {}).get("status")))
