"""Nodes are checked side by side by a pod on each, and whatever happens, no pod of ours stays."""

import asyncio
import json

import pytest
from check_results import PASSED, evidence, outcomes
from support.waiting import until

from accelkit.enablement.work import pod_life, run
from accelkit.enablement.work.pods import RUN_ANNOTATION, name_pod
from accelkit.enablement.work.run import check_nodes
from accelkit.errors import ApiError
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.stage import Stage

GIB = 2**30


async def test_nodes_of_two_vendors_are_checked_concurrently(cluster, check):
    cluster.add("a")
    cluster.add("b", "nvidia")
    found = await check("a", "b")
    assert outcomes(found) == outcomes(found, "b") == PASSED
    assert evidence(found, Stage.PLUGIN_CHECK) == "1 GiB of sim-a (m): 8 numbers added"
    assert "placed a pod with 1 GiB of GPU-b" in evidence(found, Stage.EXTENDER_CHECK, "b")
    state = found["a"][Stage.PLUGIN_CHECK].state
    assert (state.boot_id, state.kernel, len(state.cards)) == ("b", "6.1", 16)
    assert cluster.most == 2


async def test_check_pod_requests_one_unit_and_is_unprivileged(cluster, check_one):
    await check_one()
    [pod] = cluster.created
    spec = pod["spec"]
    assert "nodeName" not in spec
    assert "schedulerName" not in spec
    assert cluster.node_of(pod) == "a"
    assert (spec["automountServiceAccountToken"], spec["restartPolicy"]) == (False, "Never")
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    work, hold = spec["containers"]
    assert work["resources"]["limits"]["accelkit.io/memory"] == "1"
    assert "accelkit.io/memory" not in hold["resources"]["limits"]
    for container in (work, hold):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["metadata"]["labels"]["app.kubernetes.io/part-of"] == "accelkit"


async def test_number_of_concurrent_check_pods_is_limited(cluster, check):
    names = [f"n{number}" for number in range(12)]
    for name in names:
        cluster.add(name)
    found = await check(*names, at_once=3)
    assert {outcomes(found, name) for name in names} == {PASSED}
    assert cluster.most <= 3
    lists = [each for each in cluster.requests if each.method == "GET" and each.path == "/api/v1/nodes"]
    assert len(lists) == 2, "one list of nodes before and one after, however many there are"


async def test_check_pod_requests_resource_that_agent_advertises(cluster, check):
    cluster.add("a")
    node = cluster.node("a")
    node["metadata"]["annotations"]["accelkit.io/advertised"] = "enflame.com/gcu-memory,enflame.com/gcu-count"
    for table in ("capacity", "allocatable"):
        node["status"][table] = {"enflame.com/gcu-memory": "4"}
    assert outcomes(await check("a")) == PASSED
    assert cluster.created[0]["spec"]["containers"][0]["resources"]["limits"]["enflame.com/gcu-memory"] == "1"


async def test_check_uses_allocatable_instead_of_capacity(cluster, check):
    cluster.add("a", allocatable="0")
    found = await check("a")
    assert outcomes(found) == (("fail", "NothingAllocatable"), ("skipped", "NeedNotPassed"))
    assert evidence(found, Stage.PLUGIN_CHECK) == "none of the 16 accelkit.io/memory of a are allocatable"
    assert cluster.created == []


async def test_node_without_advertised_resource_fails(cluster, check):
    cluster.add("a")
    cluster.node("a")["status"]["capacity"] = {}
    assert outcomes(await check("a"))[0] == ("fail", "NotAdvertised")


async def test_node_without_inventory_is_unknown(cluster, check):
    cluster.add("a")
    cluster.node("a")["metadata"]["annotations"] = {}
    found = await check("a")
    assert outcomes(found) == (("unknown", "CardsUnknown"), ("unknown", "CardsUnknown"))
    assert "not published an inventory" in evidence(found, Stage.PLUGIN_CHECK)


async def test_full_node_is_unknown_and_receives_no_pod(cluster, check_one):
    cluster.free["a"] = GIB - 1
    assert outcomes(await check_one()) == (("unknown", "NoFreeShare"), ("unknown", "NoFreeShare"))
    assert cluster.created == []


async def test_missing_node_is_unknown_and_does_not_affect_other_nodes(cluster, check):
    cluster.add("a")
    found = await check("a", "gone")
    assert outcomes(found) == PASSED
    assert outcomes(found, "gone")[0] == ("unknown", "NodeMissing")


async def test_fault_of_one_node_does_not_affect_other_nodes(cluster, check):
    cluster.add("a")
    cluster.add("b")
    cluster.steps["a"] = lambda cluster, _node, pod: cluster.condition(pod, "SchedulerError", "connection refused")
    found = await check("a", "b")
    assert outcomes(found) == (("unknown", "NotPlaced"), ("fail", "SchedulerError"))
    assert "connection refused" in evidence(found, Stage.EXTENDER_CHECK)
    assert outcomes(found, "b") == PASSED


async def test_node_rebooted_during_check_is_unknown(check_one):
    def reboot(cluster, node, pod):
        cluster.run_well(node, pod)
        cluster.node(node)["status"]["nodeInfo"]["bootID"] = "c"

    found = await check_one(reboot)
    assert outcomes(found) == (("unknown", "StateChanged"),) * 2
    assert found["a"][Stage.PLUGIN_CHECK].state.boot_id == "b"


async def test_node_deleted_during_check_is_unknown(check_one):
    def leave(cluster, node, pod):
        cluster.run_well(node, pod)
        del cluster.objects["/api/v1/nodes/a"]

    assert outcomes(await check_one(leave)) == (("unknown", "NodeGone"),) * 2


@pytest.mark.parametrize("answered", [True, False])
async def test_pod_creation_without_response_is_retried(cluster, check_one, answered):
    cluster.fail(ApiError("no answer"), "POST", "/pods", answered=answered)
    assert outcomes(await check_one()) == PASSED
    assert len(cluster.created) == 2
    assert len({pod["metadata"]["annotations"][RUN_ANNOTATION] for pod in cluster.created}) == 1


async def test_unresponsive_api_server_is_unknown_after_three_attempts(cluster, check_one):
    cluster.fail(ApiError("no answer"), "POST", "/pods", times=None)
    assert outcomes(await check_one()) == (("unknown", "ApiUnanswered"),) * 2
    assert len(cluster.created) == 3


async def test_refused_check_pod_is_unknown(cluster, check_one):
    cluster.fail(ApiError("violates PodSecurity", status=403, reason="Forbidden"), "POST", "/pods")
    found = await check_one()
    assert outcomes(found) == (("unknown", "PodRefused"),) * 2
    assert "violates PodSecurity" in evidence(found, Stage.PLUGIN_CHECK)


async def test_pods_of_interrupted_run_are_deleted_first(cluster, check_one):
    for name in (name_pod("a"), name_pod("other")):
        cluster.leave(name)
    assert outcomes(await check_one()) == PASSED
    kinds = [each.method for each in cluster.done if each.path.startswith("/api/v1/namespaces/accelkit/pods/")]
    assert kinds[:2] == ["DELETE", "DELETE"]


async def test_undeletable_pod_blocks_only_check_of_its_node(cluster, check_pods, monkeypatch):
    monkeypatch.setattr(pod_life, "_GONE_SECONDS", 0.0)
    cluster.add("a")
    cluster.add("away")
    # Its kubelet never says that its containers have ended.
    cluster.keep(name_pod("away"))
    found = await check_nodes(cluster, ["a", "away"], check_pods, ledger=cluster.ledger)
    assert outcomes(found) == PASSED
    assert outcomes(found, "away") == (("unknown", "OtherRun"),) * 2


async def test_pod_of_another_run_is_not_deleted(cluster, check_pods):
    cluster.add("a")

    def come_first(request):
        if request.method == "POST" and request.path.endswith("/pods") and not cluster.pods:
            # Not yet seen by whoever looks for what was left.
            metadata = {**request.body["metadata"], "uid": "theirs", "annotations": {RUN_ANNOTATION: "theirs"}}
            cluster.store(request.path, {**request.body, "metadata": {**metadata, "labels": {}}})

    cluster.before.append(come_first)
    found = await check_nodes(cluster, ["a"], check_pods, ledger=cluster.ledger)
    assert outcomes(found) == (("unknown", "OtherRun"),) * 2
    assert cluster.objects[cluster.pod_path("a")]["metadata"]["uid"] == "theirs"


async def test_mirror_pod_with_name_of_check_pod_does_not_block_check(cluster, check_pods, monkeypatch):
    monkeypatch.setattr(pod_life, "_GONE_SECONDS", 0.0)
    cluster.add("a")
    cluster.leave(name_pod("a"), annotations={"kubernetes.io/config.mirror": "x"})["spec"]["nodeName"] = "evil"
    found = await check_nodes(cluster, ["a"], check_pods, ledger=cluster.ledger)
    assert outcomes(found) == PASSED
    assert cluster.pods == [f"/api/v1/namespaces/accelkit/pods/{name_pod('a')}"]


async def test_cancelled_run_deletes_its_pods(cluster, check_pods):
    cluster.add("a")
    cluster.steps["a"] = lambda cluster, node, pod: cluster.bind(node, pod)
    running = asyncio.create_task(check_nodes(cluster, ["a"], check_pods, ledger=cluster.ledger))
    await until(lambda: cluster.pods)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cluster.pods == []


async def test_internal_error_leaves_no_pod(cluster, check_pods, monkeypatch):
    cluster.add("a")
    monkeypatch.setattr(run, "judge_container", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await check_nodes(cluster, ["a"], check_pods, ledger=cluster.ledger)
    assert cluster.pods == []


async def test_ledger_and_allocation_reads_are_shared_between_nodes(cluster, check):
    for number in range(8):
        cluster.add(f"n{number}")
    await check(*(f"n{number}" for number in range(8)))
    maps = [each for each in cluster.requests if each.path.endswith("/configmaps")]
    assert len(maps) < 8, json.dumps(len(maps))


async def test_result_is_kept_if_pod_deletion_has_no_response(cluster, check_one):
    cluster.fail(ApiError("no answer"), "DELETE", times=3)
    assert outcomes(await check_one()) == PASSED


async def test_assignment_corrupted_during_check_does_not_affect_other_nodes(cluster, check):
    cluster.add("a")
    cluster.add("b")
    cluster.held["a"] = None

    def end(cluster, node, pod):
        cluster.run_well(node, pod)
        annotations = pod["metadata"]["annotations"]
        asyncio.get_running_loop().call_later(0.02, lambda: annotations.update({ASSIGNMENT_ANNOTATION: "{"}))

    cluster.steps["a"] = end
    found = await check("a", "b")
    assert outcomes(found) == (("unknown", "NotPlaced"), ("fail", "AssignmentUnreadable"))
    assert outcomes(found, "b") == PASSED
