"""Reports are written where they differ, with times that say since when, and one namespace holds up no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from fake_api.patches import merge
from fake_api.server import FakeApi
from support.tasks import running
from support.waiting import until

from accelkit.back_off import BackOff
from accelkit.cacheagent.reporting import report_writer as status_writer
from accelkit.cacheagent.reporting.report_writer import ReportWriter
from accelkit.cacheagent.reporting.status_patch import build_status_patch
from accelkit.errors import ApiError
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import CachePod, NodeCacheStatus, NodeStatus

THEN, NOW = "2026-11-24T00:00:00Z", "2026-11-24T01:00:00Z"


def status(*, ready: bool = True, pods: int = 0, name: str = "add", digest: str = "sha256:a") -> NodeStatus:
    conditions = [state(ConditionType.READY, Reason.READY if ready else Reason.PENDING, holds=ready)]
    entry = NodeCacheStatus(conditions=conditions, pods=[CachePod("team", f"p{number}") for number in range(pods)])
    return NodeStatus(node_name="n", caches={name: {digest: entry}})


def written(known: NodeStatus | None, wanted: NodeStatus, now: str = THEN) -> NodeStatus:
    """What an API server has after the patch: a merge patch of known."""
    patch = build_status_patch(known, wanted, now)
    assert patch is not None
    return msgspec.convert(merge(msgspec.to_builtins(known or NodeStatus()), patch["status"]), NodeStatus)


def test_report_is_written_only_if_changed():
    known = written(None, status())
    assert build_status_patch(known, status(), NOW) is None
    assert known.last_updated == THEN
    known = written(None, status(pods=1))
    more = written(known, status(pods=2), NOW)
    (condition,) = more.caches["add"]["sha256:a"].conditions
    assert (condition.last_transition_time, more.last_updated) == (THEN, NOW)
    lost = written(more, status(ready=False, pods=2), NOW)
    assert lost.caches["add"]["sha256:a"].conditions[0].last_transition_time == NOW


@pytest.mark.parametrize("wanted", [status(name="other"), status(digest="sha256:b"), NodeStatus(node_name="n")])
def test_removed_caches_and_digests_are_deleted_from_report(wanted):
    after = written(written(None, status()), wanted, NOW)
    assert {name: set(each) for name, each in after.caches.items()} == {
        name: set(each) for name, each in wanted.caches.items()
    }


@asynccontextmanager
async def writing(api: FakeApi, known: dict[str, NodeStatus] | None = None) -> AsyncIterator[ReportWriter]:
    writer = ReportWriter(api, "n", known if known is not None else {})
    async with running(writer.run()):
        yield writer


@pytest.fixture(autouse=True)
def _prompt(monkeypatch) -> None:
    monkeypatch.setattr(status_writer, "_GATHER_SECONDS", 0.0)


def path(namespace: str) -> str:
    return f"/apis/gkm.io/v1alpha1/namespaces/{namespace}/gkmcachenodes/n"


CLUSTER = "/apis/gkm.io/v1alpha1/clustergkmcachenodes/n"


def is_written(api: FakeApi, *paths: str) -> bool:
    return all(api.objects.get(each, {}).get("status") for each in paths)


async def test_report_is_created_with_owner_and_deleted_if_not_needed(api):
    async with writing(api) as writer:
        writer.offer({"team": status(), "": status()}, "uid-1")
        await until(lambda: is_written(api, path("team"), CLUSTER))
        made = api.objects[path("team")]
        # Kubernetes deletes it with the node.
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "uid-1"}
        labels = {"kubernetes.io/hostname": "n"}
        assert made["metadata"] == {"name": "n", "labels": labels, "ownerReferences": [owner], "namespace": "team"}
        assert (made["kind"], api.objects[CLUSTER]["kind"]) == ("GKMCacheNode", "ClusterGKMCacheNode")
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: CLUSTER not in api.objects)
        assert path("team") in api.objects


async def test_namespace_that_rejects_report_does_not_block_other_reports(api, monkeypatch):
    monkeypatch.setattr(status_writer, "_BACK_OFF", BackOff(3600.0, 3600.0))
    api.fail(ApiError("the namespace is being terminated", status=403), path="/leaving/", times=None)
    async with writing(api) as writer:
        writer.offer({"leaving": status()}, "uid-1")
        await until(lambda: api.requests)
        for pods in range(3):
            writer.offer({"leaving": status(), "team": status(pods=pods)}, "uid-1")
            await until(lambda pods=pods: is_written(api, path("team")) and len(_pods(api)) == pods)
    assert len([each for each in api.requests if "/leaving/" in each.path]) == 1


def _pods(api: FakeApi) -> list:
    return api.objects[path("team")]["status"]["caches"]["add"]["sha256:a"].get("pods", [])


async def test_failed_report_is_written_after_back_off(api, monkeypatch):
    monkeypatch.setattr(status_writer, "_BACK_OFF", BackOff(0.02, 0.02))
    api.fail(ApiError("the namespace is being terminated", status=403), times=3)
    async with writing(api) as writer:
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: is_written(api, path("team")))


async def test_deleted_report_is_created_again(api):
    known = {}
    async with writing(api, known) as writer:
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: is_written(api, path("team")))
        api.objects.clear()
        # As the watch tells.
        known.clear()
        writer.offer({"team": status()}, "uid-1")
        await until(lambda: is_written(api, path("team")))
