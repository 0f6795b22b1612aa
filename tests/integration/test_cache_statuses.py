"""What the programs write of kernel caches on a real API server: it is kept, and people see it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from cache_definitions import STRICT, cache, manifest

from accelkit.errors import ApiError
from accelkit.gkm.conditions import ConditionType, Reason, merge_conditions, state
from accelkit.gkm.objects import (
    Cache,
    CacheCounts,
    CacheMount,
    CacheNode,
    CachePod,
    CacheStatus,
    CacheVerification,
    GpuStatus,
    NodeCacheStatus,
    NodeStatus,
    PvcStatus,
)

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAMESPACE = "default"
DIGEST = "sha256:" + "a" * 64
NOW = "2026-11-24T00:00:00Z"


def conditions(ready: bool, reason: str) -> list[Any]:
    present = [
        state(ConditionType.VERIFIED, Reason.VERIFIED, "signed by ci", holds=True),
        state(ConditionType.READY, reason, "2 nodes", holds=ready),
        state(ConditionType.EFFECTIVE, Reason.NOT_MEASURED, holds=None),
    ]
    return merge_conditions([], present, now=NOW, generation=1)


def full_status() -> CacheStatus:
    return CacheStatus(
        resolved_digest=DIGEST,
        resolved_image="quay.io/acme/cache:v1",
        previous_digests=["sha256:" + "b" * 64],
        mount_path="/cache",
        cache_bytes=5,
        delivery="node",
        pvc_owner="Agent",
        pvc_status={NAMESPACE: PvcStatus("pv", "pvc", "", "Agent", conditions(True, Reason.READY))},
        verification=CacheVerification(DIGEST, DIGEST, [{"policy": "acme", "signer": "ci"}], NOW),
        conditions=conditions(True, Reason.READY),
        counts=CacheCounts(node_cnt=2, node_in_use_cnt=1),
        observed_generation=1,
        last_updated=NOW,
        cache_format="vllm",
        capture_path="/root/.cache/vllm",
        relocatable=True,
        mounts=[CacheMount("/root/.cache/vllm"), CacheMount("/root/.triton/cache", "triton")],
        variables={"VLLM_CACHE_ROOT": "/root/.cache/vllm"},
        recorded_environment={"VLLM_USE_V1": "1"},
    )


@pytest.mark.parametrize("kind", ["GKMCache", "ClusterGKMCache"])
async def test_controller_status_is_stored_and_shown_in_table(there, kind):
    name = f"shown-{kind.lower()}"
    await there.api.post(there.path(kind), cache(kind, name), query=STRICT)
    before = await there.table(kind, name)
    assert (before["Ready"], before["Nodes"], before["Digest"]) == (None, None, None)
    status = msgspec.to_builtins(full_status())
    # Who may write the spec writes no status with it.
    await there.api.patch(f"{there.path(kind)}/{name}", {"status": status}, query=STRICT)
    assert "status" not in json.loads(await there.api.get(f"{there.path(kind)}/{name}"))
    kept = json.loads(await there.api.patch(f"{there.path(kind)}/{name}/status", {"status": status}, query=STRICT))
    assert msgspec.json.decode(msgspec.json.encode(kept), type=Cache).status == full_status()
    shown = await there.table(kind, name)
    expected = {
        "Name": name,
        "Ready": "True",
        "Reason": "Ready",
        "Nodes": 2,
        "Node-In-Use": 1,
        "Node-Error": 0,
        "Pod-Outdated": 0,
        "Verified": "Verified",
        "Effective": "NotMeasured",
        "Delivery": "node",
        "Digest": DIGEST,
        "Image": "quay.io/acme/cache:v1",
    }
    assert expected.items() <= shown.items()
    assert shown["Age"]


@pytest.mark.parametrize("kind", ["GKMCacheNode", "ClusterGKMCacheNode"])
async def test_agent_status_is_stored_and_shown_in_table(there, kind):
    name = f"node-{kind.lower()}"
    pods = [CachePod(NAMESPACE, "pod", "", 0), CachePod(NAMESPACE, "other")]
    of_digest = NodeCacheStatus(
        compatible_gpus=[0],
        incompatible_gpus=[1],
        last_updated=NOW,
        volume_size=5,
        path="/var/lib/accelkit/kernel-caches/a/cache",
        pods=pods,
        conditions=conditions(False, Reason.NODE_FULL),
        recorded_environment={"VLLM_USE_V1": "1"},
    )
    status = NodeStatus(
        node_name=name,
        counts=CacheCounts(node_error_cnt=1),
        gpus=[GpuStatus("NVIDIA H100", "580.1", [0, 1])],
        caches={"x": {DIGEST: of_digest}},
        last_updated=NOW,
    )
    await there.api.post(there.path(kind), manifest(kind, name), query=STRICT)
    body = {"status": msgspec.to_builtins(status)}
    kept = json.loads(await there.api.patch(f"{there.path(kind)}/{name}/status", body, query=STRICT))
    assert msgspec.convert(kept, CacheNode).status == status
    shown = await there.table(kind, name)
    assert {"GPU": "NVIDIA H100", "Driver": "580.1", "Node-Error": 1, "Node-In-Use": 0}.items() <= shown.items()


async def test_invalid_status_is_rejected(there):
    await there.api.post(there.path("GKMCache"), cache(name="liar"), query=STRICT)
    where = f"{there.path('GKMCache')}/liar/status"
    twice = msgspec.to_builtins(conditions(True, Reason.READY)) * 2
    for status, words in (
        ({"resolvedDigest": "latest"}, "status.resolvedDigest"),
        ({"pvcOwner": "User"}, "status.pvcOwner"),
        ({"cacheBytes": -1}, "status.cacheBytes"),
        ({"conditions": twice}, "Duplicate value"),
    ):
        with pytest.raises(ApiError, match=words):
            await there.api.patch(where, {"status": status}, query=STRICT)
