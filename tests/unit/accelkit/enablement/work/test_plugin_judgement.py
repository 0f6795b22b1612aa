"""What the end of a check pod's container, and its kubelet, say of the device plugin."""

import asyncio

import pytest
from check_results import PASSED, evidence, outcomes

from accelkit.enablement.work import run
from accelkit.errors import ApiError
from accelkit.model.stage import Stage

GIB = 2**30


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"},
            ("fail", "NotAdmitted"),
        ),
        ({"phase": "Failed", "reason": "OutOfaccelkit.io/memory", "message": "no"}, ("fail", "NotAdmitted")),
        ({"phase": "Failed", "reason": "OutOfcpu", "message": "no"}, ("unknown", "KubeletRefused")),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, ("unknown", "KubeletRefused")),
        ({"phase": "Pending"}, ("unknown", "NotEnded")),
    ],
)
async def test_pod_refused_by_kubelet_fails_or_is_unknown_by_reason(check_one, status, expected):
    def refuse(cluster, node, pod):
        cluster.bind(node, pod)
        pod["status"] |= status

    found = await check_one(refuse)
    assert outcomes(found) == (expected, ("skipped", "NeedNotPassed"))
    assert status.get("message", "did not end within the time limit") in evidence(found, Stage.PLUGIN_CHECK)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ErrImageNeverPull", ("unknown", "NoImage")),
        ("CreateContainerError", ("fail", "ContainerNotStarted")),
        ("ContainerCreating", ("unknown", "NotEnded")),
    ],
)
async def test_container_that_does_not_start_fails_or_is_unknown_by_reason(check_one, reason, expected):
    def wait(cluster, node, pod):
        cluster.bind(node, pod)
        waiting = {"reason": reason, "message": "unresolvable CDI devices"}
        pod["status"]["containerStatuses"] = [{"name": "check", "state": {"waiting": waiting}}]

    found = await check_one(wait)
    assert outcomes(found)[0] == expected
    assert "unresolvable CDI devices" in evidence(found, Stage.PLUGIN_CHECK)


async def test_deleted_check_pod_is_unknown(check_one):
    def bind_and_lose(cluster, node, pod):
        cluster.bind(node, pod)
        asyncio.get_running_loop().call_later(0.03, lambda: cluster.objects.pop(cluster.pod_path(node)))

    assert outcomes(await check_one(bind_and_lose)) == (("unknown", "PodGone"), ("skipped", "NeedNotPassed"))


@pytest.mark.parametrize(
    ("vendor", "ended", "expected"),
    [
        (
            "simulated",
            {"code": 2, "message": "Error: No such command 'share-check'."},
            ("NoEvidence", "No such command"),
        ),
        ("simulated", {"code": 137, "message": "", "reason": "OOMKilled"}, ("NoEvidence", "137 (OOMKilled)")),
        ("simulated", {"message": "x" * 20000}, ("NoEvidence", "more than a kubelet stores")),
        ("simulated", {"message": '{"version": 2}'}, ("NoEvidence", "unsupported version 2")),
        ("simulated", {"code": 1}, ("WorkFailed", "exited with code 1")),
        ("simulated", {"told": {"memory_bytes": 2 * GIB}}, ("WrongLimit", "has 2 GiB, but its share is 1 GiB")),
        ("simulated", {"told": {"memory_bytes": None}}, ("WrongLimit", "no memory limit")),
        ("simulated", {"told": {"variables": {}}}, ("WrongDevice", "its ACCELKIT_VISIBLE_DEVICES is missing")),
        (
            "simulated",
            {"told": {"variables": {"ACCELKIT_VISIBLE_DEVICES": "all"}}},
            ("WrongDevice", "is all, but the value"),
        ),
        ("nvidia", {"told": {"device_nodes": []}}, ("NoDeviceNode", "lacks /dev/nvidia3")),
        ("nvidia", {"told": {"device_nodes": ["/dev/nvidia0"]}}, ("WrongDevice", "lacks /dev/nvidia3")),
        (
            "nvidia",
            {"told": {"device_nodes": ["/dev/nvidia3", "/dev/nvidia4"]}},
            ("WrongDevice", "in addition to /dev/nvidia3"),
        ),
        ("nvidia", {"told": {"identities": ["GPU-other"]}}, ("WrongDevice", "its driver reports GPU-other")),
        (
            "nvidia",
            {"code": 1, "told": {"passed": False, "reason": "CudaFailed", "detail": "cuInit"}},
            ("CudaFailed", "cuInit"),
        ),
        ("nvidia", {"code": 1, "told": {"passed": False, "reason": "Forged"}}, ("WorkFailed", "exited with code 1")),
    ],
)
async def test_invalid_container_evidence_fails_plugin_check(check_one, vendor, ended, expected):
    def end(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        given = dict(ended)
        if "told" in given:
            given["message"] = cluster.evidence(vendor, cluster.nodes[node]["id"], **given.pop("told"))
        cluster.end(node, pod, **given)

    found = await check_one(end, vendor)
    reason, words = expected
    assert outcomes(found) == (("fail", reason), ("skipped", "NeedNotPassed"))
    assert words in evidence(found, Stage.PLUGIN_CHECK)


async def test_variable_replaced_by_container_runtime_is_ignored(check_one):
    def end(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        told = cluster.evidence("nvidia", "GPU-a", variables={"NVIDIA_VISIBLE_DEVICES": "void"}, identities=["GPU-a"])
        cluster.end(node, pod, message=f"a warning\n{told}\n")

    assert outcomes(await check_one(end, "nvidia")) == PASSED


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        *((devices, ("fail", "KubeletDiffers")) for devices in ({"sim-b": 1}, {"sim-a": 2}, {})),
        (None, ("unknown", "NotObserved")),
    ],
)
async def test_different_allocated_devices_fail_plugin_check(cluster, check_one, devices, expected):
    cluster.held["a"] = devices
    assert outcomes(await check_one()) == (expected, ("pass", ""))


async def test_unreadable_allocations_are_unknown(cluster, check_one):
    cluster.fail(ApiError("no"), "GET", "/configmaps", times=None)
    assert outcomes(await check_one()) == (("unknown", "NotObserved"), ("pass", ""))


async def test_allocation_published_late_by_agent_counts(cluster, check_one, monkeypatch):
    monkeypatch.setattr(run, "AGREE_SECONDS", 5)
    cluster.held["a"] = None

    def end(cluster, node, pod):
        cluster.run_well(node, pod)

        def show():
            cluster.held.clear()
            cluster.admit(node, pod)

        asyncio.get_running_loop().call_later(0.05, show)

    assert outcomes(await check_one(end)) == PASSED
