"""Which claims a pod uses, and which of them it might write to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from accelkit.cachecontroller.claim_pods import ObservedPod, read_claim_pod
from accelkit.cachecontroller.cluster_view import ClaimPod

WRITES, READS = {"name": "v", "mountPath": "/c"}, {"name": "v", "mountPath": "/c", "readOnly": True}
CLAIM = {"persistentVolumeClaim": {"claimName": "kernels"}}
FORCED = {"persistentVolumeClaim": {"claimName": "kernels", "readOnly": True}}
OWNED = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def read(volume: dict[str, Any], phase: str = "Pending", **spec: Any) -> ClaimPod | None:
    volumes = [{"name": "v", **volume}, {"name": "scratch", "emptyDir": {}}]
    meta = {"name": "p", "namespace": "team", "uid": "u"}
    body = {"metadata": meta, "spec": {"volumes": volumes, **spec}, "status": {"phase": phase}}
    return read_claim_pod(msgspec.convert(body, ObservedPod))


def containers(*mounts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": "other"}, {"name": "main", "volumeMounts": [{"name": "scratch", "mountPath": "/s"}, *mounts]}]


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(
    ("mounts", "writes"), [([WRITES], True), ([READS], False), ([READS, {**WRITES, "subPath": "x"}], True), ([], False)]
)
def test_mount_that_is_not_read_only_counts_as_writable(kind, mounts, writes):
    found = read(CLAIM, **{"containers": containers(READS), kind: containers(*mounts)})
    assert found.claims == {"kernels"}
    assert found.writable == ({"kernels"} if writes else set())


def test_read_only_volume_prevents_writes_unless_second_volume_is_writable():
    found = read(FORCED, containers=containers(WRITES))
    assert (found.claims, found.writable) == ({"kernels"}, set())
    two = [{"name": "r", **FORCED}, {"name": "v", **CLAIM}]
    found = read({}, volumes=two, containers=containers(WRITES))
    assert found.writable == {"kernels"}


@pytest.mark.parametrize(("mount", "writable"), [(WRITES, {"p-v"}), (READS, set())])
def test_pod_uses_claim_of_its_ephemeral_volume(mount, writable):
    found = read(OWNED, containers=containers(mount))
    assert (found.claims, found.writable) == ({"p-v"}, writable)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminated_pod_uses_no_claim(phase):
    assert read(CLAIM, phase, containers=containers(WRITES)) is None


def test_pod_with_scheduling_gate_uses_claim():
    assert read(CLAIM, schedulingGates=[{"name": "later"}], containers=containers(WRITES)) is not None
