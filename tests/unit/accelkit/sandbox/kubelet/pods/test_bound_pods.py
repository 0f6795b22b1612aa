"""The pods that are bound to a node: who is admitted, what they hold, and how they go."""

import asyncio

import pytest
from simulated_pods import CARD, PODS, Node, container, manager_of
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.sandbox.kubelet.devices.checkpoint import save_checkpoint
from accelkit.sandbox.kubelet.pods.pods import Pods


@pytest.mark.parametrize("cards", [2])
async def test_pod_runs_with_its_devices_and_releases_them_on_deletion(node):
    node.bind("p", container(cards=2))
    await node.phase("p", "Running")
    assert node.given("p")["main"] == {
        "environment": {"CARDS": "card-0,card-1"},
        "devices": ["/dev/card"],
        "mounts": [],
        "device_ids": {CARD: ["card-0", "card-1"]},
    }
    assert node.list_kept() == {"uid-p"}
    assert [pod.metadata.name for pod in node.pods.list_active()] == ["p"]
    node.delete("p")
    await node.until("p", lambda pod: pod is None)
    assert (node.manager.list_holders(), node.list_kept()) == (set(), set())
    assert node.pods.list_active() == []
    (deletion,) = (request for request in node.api.done if request.method == "DELETE")
    # Without the UID a pod that has the name by now would go.
    assert (deletion.body["gracePeriodSeconds"], deletion.body["preconditions"]) == (0, {"uid": "uid-p"})


async def test_pods_of_other_nodes_are_ignored(tmp_path):
    node = Node(tmp_path)
    node.bind("theirs", node="other")
    node.bind("ours")
    async with node.running():
        await node.phase("ours", "Running")
        node.bind("late", node="other")
        node.bind("later")
        await node.phase("later", "Running")
    assert [node.find(name)["status"]["phase"] for name in ("theirs", "late")] == ["Pending"] * 2


async def test_oldest_pod_gets_last_device_and_other_pods_fail_admission(tmp_path):
    node = Node(tmp_path, manager=manager_of(1))
    node.bind("a", container(cards=1), created="2026-01-01T00:00:02Z")
    node.bind("c", container(cards=1), created="2026-01-01T00:00:01Z")
    node.bind("b", container(cards=1), created="2026-01-01T00:00:01Z")
    async with node.running():
        await node.phase("b", "Running")
        for name in ("a", "c"):
            failed = await node.phase(name, "Failed")
            assert failed["reason"] == "UnexpectedAdmissionError"
            assert failed["message"] == (
                f"Allocate failed due to requested number of devices unavailable for {CARD}."
                " Requested: 1, Available: 0, which is unexpected"
            )
            assert failed["startTime"] == "2026-01-02T03:04:05Z"
        assert [pod.metadata.name for pod in node.pods.list_active()] == ["b"]


@pytest.mark.parametrize("cards", [2])
async def test_pod_that_fails_admission_holds_no_devices(node):
    node.bind("greedy", container("one", cards=1), container("two", cards=2))
    await node.phase("greedy", "Failed")
    assert node.manager.list_holders() == set()
    node.bind("modest", container(cards=2))
    await node.phase("modest", "Running")
    # It says so once, and nothing of it ever runs.
    assert [request.path for request in node.api.writes].count(f"{PODS}/greedy/status") == 1


async def test_pod_with_invalid_quantity_fails(node):
    node.bind("odd", {"name": "main", "resources": {"limits": {CARD: "many"}}})
    assert "many" in (await node.phase("odd", "Failed"))["message"]


@pytest.mark.parametrize("cards", [3])
async def test_init_container_devices_are_reused_but_sidecar_devices_are_not(node):
    inits = [container("side", cards=1, restartPolicy="Always"), container("init", cards=2)]
    node.bind("p", container(cards=2), initContainers=inits)
    await node.phase("p", "Running")
    given = {name: each["device_ids"][CARD] for name, each in node.given("p").items()}
    assert given["init"] == given["main"]
    assert not set(given["side"]) & set(given["main"])


async def test_force_deleted_pod_releases_devices_immediately(node):
    node.bind("first", container(cards=1))
    await node.phase("first", "Running")
    del node.api.objects[f"{PODS}/first"]
    node.bind("second", container(cards=1), created="2026-01-01T00:00:09Z")
    await node.phase("second", "Running")
    assert node.list_kept() == {"uid-second"}
    assert not [request for request in node.api.requests if request.method == "DELETE"]


async def test_completed_pod_remains_in_api_server_but_releases_devices(node):
    node.bind("job", container(cards=1))
    await node.phase("job", "Running")
    node.annotate("job", "sandbox.accelkit.io/exit", "0")
    await node.phase("job", "Succeeded")
    node.bind("next", container(cards=1))
    await node.phase("next", "Running")
    assert [pod.metadata.name for pod in node.pods.list_active()] == ["next"]
    node.delete("job")
    await node.until("job", lambda pod: pod is None)


async def test_externally_set_terminal_phase_ends_pod_without_status_update(node):
    node.bind("p", container(cards=1))
    await node.phase("p", "Running")
    node.find("p")["status"] = {"phase": "Failed", "reason": "Evicted"}
    node.bind("next", container(cards=1))
    await node.phase("next", "Running")
    assert node.find("p")["status"] == {"phase": "Failed", "reason": "Evicted"}


async def test_pod_deleted_before_admission_is_removed_without_status_update(tmp_path):
    node = Node(tmp_path, manager=manager_of(1))
    node.bind("p", container(cards=1))
    node.delete("p", grace=30)
    async with node.running():
        await node.until("p", lambda pod: pod is None)
    assert not [request for request in node.api.requests if request.method == "PATCH"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_pods_completed_before_kubelet_start_are_unchanged(tmp_path, phase):
    node = Node(tmp_path, manager=manager_of(1))
    node.bind("old", container(cards=1), status={"phase": phase})
    async with node.running():
        node.bind("new", container(cards=1))
        await node.phase("new", "Running")
        assert node.find("old")["status"] == {"phase": phase}
        assert [pod.metadata.name for pod in node.pods.list_active()] == ["new"]


async def test_restarted_kubelet_restores_devices_of_running_pods(tmp_path):
    before = Node(tmp_path, manager=manager_of(3))
    async with before.running():
        for name in ("kept", "gone", "ended"):
            before.bind(name, container(cards=1))
            await before.phase(name, "Running")
    given = before.given("kept")
    assert before.find("kept")["status"]["phase"] == "Running"
    del before.api.objects[f"{PODS}/gone"]
    before.find("ended")["status"]["phase"] = "Failed"
    save_checkpoint(before.checkpoint, before.manager)
    # The same checkpoint, API server and devices; nothing else outlives the process.
    before.pods = Pods(before.context, before.checkpoint)
    async with before.running():
        before.bind("new", container(cards=2))
        await before.phase("new", "Running")
        assert before.list_kept() == {"uid-kept", "uid-new"}
    assert before.given("kept") == given


async def test_recreated_pod_of_same_name_is_treated_as_new_pod(node):
    node.bind("p", container(cards=1))
    await node.phase("p", "Running")
    del node.api.objects[f"{PODS}/p"]
    node.bind("p", container(cards=1), meta={"uid": "uid-again"})
    await node.phase("p", "Running")
    assert node.manager.list_holders() == {"uid-again"}


async def test_pod_deletion_is_retried_until_api_server_accepts(node):
    node.bind("p")
    await node.phase("p", "Running")
    node.api.fail(ApiError("busy", status=503), "DELETE", times=2)
    node.delete("p")
    await node.until("p", lambda pod: pod is None)
    assert len([request for request in node.api.requests if request.method == "DELETE"]) == 3


@pytest.mark.parametrize("status", [404, 409])
async def test_pod_deletion_stops_when_pod_is_missing_or_replaced(node, status):
    node.bind("p")
    await node.phase("p", "Running")
    node.api.fail(ApiError("it is not this one", status=status), "DELETE", times=None)
    node.delete("p")
    node.bind("next")
    await node.phase("next", "Running")
    await asyncio.sleep(0.05)
    # Once when its process has ended, and once more at most, when its last status comes back.
    assert len([request for request in node.api.requests if request.method == "DELETE"]) <= 2


async def test_active_pods_are_sorted_by_namespace_and_name(node):
    for name, namespace in (("b", "default"), ("a", "default"), ("c", "abc")):
        node.bind(name, meta={"namespace": namespace})
        await node.until(name, lambda _: len(node.pods.list_active()) > 0)
    active = await until(node.pods.list_active, accept=lambda active: len(active) == 3)
    assert [(pod.metadata.namespace, pod.metadata.name) for pod in active] == [
        ("abc", "c"),
        ("default", "a"),
        ("default", "b"),
    ]


async def test_rejected_pod_is_inactive_before_status_write_succeeds(node):
    node.api.fail(ApiError("it makes no sense", status=422), "PATCH", times=None)
    node.bind("greedy", container(cards=2))
    node.bind("modest", container(cards=1))
    await until(lambda: any(request.path == f"{PODS}/greedy/status" for request in node.api.requests))
    assert node.find("greedy")["status"]["phase"] == "Pending"
    assert [pod.metadata.name for pod in node.pods.list_active()] == ["modest"]
