from __future__ import annotations

import asyncio
import json

import pytest

from accelkit.enablement.work import pod_life, run
from accelkit.enablement.work.pods import RUN_ANNOTATION, name_pod
from accelkit.enablement.work.reasons import REASONS
from accelkit.enablement.work.run import check_nodes
from accelkit.errors import ApiError, ServiceError
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION
from accelkit.model.stage import Outcome, Stage

GIB = 2**30


@pytest.fixture
def check(cluster, check_pods):
    """Check nodes; return outcome and reason of both stages by node."""

    async def checked(*names, at_once=32):
        found = await check_nodes(cluster, names, check_pods, ledger=cluster.ledger, at_once=at_once)
        assert cluster.pods == [], "no pod stays"
        for each in found.values():
            for result in each.results.values():
                assert (result.reason == "") is (result.outcome is Outcome.PASS)
                assert result.next_action == REASONS.get(result.reason, "")
        return found

    return checked


def outcomes(found, node="a"):
    results = found[node].results
    return tuple(
        (results[stage].outcome.value, results[stage].reason) for stage in (Stage.PLUGIN_CHECK, Stage.EXTENDER_CHECK)
    )


def evidence(found, stage, node="a"):
    return found[node].results[stage].evidence


PASSED = (("pass", ""), ("pass", ""))


async def test_two_nodes_of_two_vendors_pass_side_by_side(cluster, check):
    cluster.add("a")
    cluster.add("b", "nvidia")
    found = await check("a", "b")
    assert outcomes(found) == outcomes(found, "b") == PASSED
    assert evidence(found, Stage.PLUGIN_CHECK) == "1 GiB of sim-a (m): 8 numbers added"
    assert "placed a pod with 1 GiB of GPU-b" in evidence(found, Stage.EXTENDER_CHECK, "b")
    state = found["a"].results[Stage.PLUGIN_CHECK].state
    assert (state.boot_id, state.kernel, len(state.cards)) == ("b", "6.1", 16)
    assert found["a"].before == found["a"].after == state
    assert cluster.most == 2


async def test_a_pod_asks_for_one_unit_through_the_scheduler_and_may_do_nothing(cluster, check):
    cluster.add("a")
    await check("a")
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


async def test_no_more_than_so_many_pods_at_one_time(cluster, check):
    names = [f"n{number}" for number in range(12)]
    for name in names:
        cluster.add(name)
    found = await check(*names, at_once=3)
    assert {outcomes(found, name) for name in names} == {PASSED}
    assert cluster.most <= 3
    lists = [each for each in cluster.requests if each.method == "GET" and each.path == "/api/v1/nodes"]
    assert len(lists) == 2, "one list of nodes before and one after, however many there are"


async def test_another_dialects_resource_is_asked_for_where_the_agent_advertises_it(cluster, check):
    cluster.add("a")
    node = cluster.node("a")
    node["metadata"]["annotations"]["accelkit.io/advertised"] = "enflame.com/gcu-memory,enflame.com/gcu-count"
    for table in ("capacity", "allocatable"):
        node["status"][table] = {"enflame.com/gcu-memory": "4"}
    assert outcomes(await check("a")) == PASSED
    assert cluster.created[0]["spec"]["containers"][0]["resources"]["limits"]["enflame.com/gcu-memory"] == "1"


async def test_allocatable_counts_and_not_capacity(cluster, check):
    cluster.add("a", allocatable="0")
    found = await check("a")
    assert outcomes(found) == (("fail", "NothingAllocatable"), ("skipped", "NeedNotPassed"))
    assert evidence(found, Stage.PLUGIN_CHECK) == "of 16 accelkit.io/memory of a none is allocatable"
    assert cluster.created == []


async def test_a_node_that_offers_nothing_fails(cluster, check):
    cluster.add("a")
    cluster.node("a")["status"]["capacity"] = {}
    assert outcomes(await check("a"))[0] == ("fail", "NotAdvertised")


async def test_a_node_whose_cards_are_not_known_is_unknown(cluster, check):
    cluster.add("a")
    cluster.node("a")["metadata"]["annotations"] = {}
    found = await check("a")
    assert outcomes(found) == (("unknown", "CardsUnknown"), ("unknown", "CardsUnknown"))
    assert "published no inventory" in evidence(found, Stage.PLUGIN_CHECK)


async def test_a_full_node_is_not_a_failed_one_and_gets_no_pod(cluster, check):
    cluster.add("a")
    cluster.free["a"] = GIB - 1
    assert outcomes(await check("a")) == (("unknown", "NoFreeShare"), ("unknown", "NoFreeShare"))
    assert cluster.created == []


async def test_a_node_that_is_not_there_is_unknown_and_stops_no_other(cluster, check):
    cluster.add("a")
    found = await check("a", "gone")
    assert outcomes(found) == PASSED
    assert outcomes(found, "gone")[0] == ("unknown", "NodeMissing")


async def test_one_nodes_fault_stops_no_other(cluster, check):
    cluster.add("a")
    cluster.add("b")
    cluster.steps["a"] = lambda cluster, _node, pod: cluster.condition(pod, "SchedulerError", "connection refused")
    found = await check("a", "b")
    assert outcomes(found) == (("unknown", "NotPlaced"), ("fail", "SchedulerError"))
    assert "connection refused" in evidence(found, Stage.EXTENDER_CHECK)
    assert outcomes(found, "b") == PASSED


@pytest.mark.parametrize(
    ("said", "free", "expected"),
    [
        (
            "0/2: 1 node(s) had a refusal",
            16 * GIB,
            (("unknown", "NotPlaced"), ("fail", "Unschedulable")),
        ),
        ("0/2: 1 Insufficient cpu", 16 * GIB, (("unknown", "HostFull"),) * 2),
        ("0/2: 1 Too many pods", 16 * GIB, (("unknown", "HostFull"),) * 2),
        ("0/2: insufficient accelkit.io/memory in one card", 0, (("unknown", "NoFreeShare"),) * 2),
    ],
)
async def test_why_a_pod_is_not_placed(cluster, check, said, free, expected):
    cluster.add("a")

    def refuse(cluster, node, pod):
        # As where another pod has taken the last share meanwhile.
        cluster.free[node] = free
        cluster.condition(pod, "Unschedulable", said)

    cluster.steps["a"] = refuse
    found = await check("a")
    assert outcomes(found) == expected
    assert said in evidence(found, Stage.EXTENDER_CHECK)


async def test_a_pod_that_finds_its_place_in_time_passes(cluster, check, monkeypatch):
    monkeypatch.setattr(run, "PATIENCE_SECONDS", 5)
    cluster.add("a")

    def place_late(cluster, node, pod):
        cluster.condition(pod, "Unschedulable", "0/1 nodes are available")

        def place():
            cluster.bind(node, pod)
            cluster.admit(node, pod)
            cluster.end(node, pod)

        asyncio.get_running_loop().call_later(0.03, place)

    cluster.steps["a"] = place_late
    assert outcomes(await check("a")) == PASSED


async def test_nobody_tries_to_place_it(cluster, check):
    cluster.add("a")
    cluster.steps["a"] = lambda *_: None
    assert outcomes(await check("a")) == (("unknown", "NotTried"), ("unknown", "NotTried"))


async def test_a_pod_that_was_bound_without_the_extender_fails_it(cluster, check):
    cluster.add("a")

    def bind_bare(cluster, node, pod):
        cluster.bind(node, pod, assigned=False)
        cluster.admit(node, pod)
        cluster.end(node, pod)

    cluster.steps["a"] = bind_bare
    assert outcomes(await check("a"))[1] == ("fail", "NoAssignment")


async def test_an_assignment_that_the_agent_wrote_later_is_not_the_extenders(cluster, check):
    cluster.add("a")

    def bind_bare(cluster, node, pod):
        cluster.bind(node, pod, assigned=False)

        def write():
            cluster.bind(node, pod)
            cluster.admit(node, pod)
            cluster.end(node, pod)

        asyncio.get_running_loop().call_later(0.2, write)

    cluster.steps["a"] = bind_bare
    assert outcomes(await check("a"))[1] == ("fail", "NoAssignment")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"version": 1, "containers": {}}',
        '{"version": 1, "containers": {"check": [{"card": "x", "memory_bytes": -1}]}}',
    ],
)
async def test_an_assignment_that_is_of_no_use_fails_the_extender(cluster, check, text):
    cluster.add("a")

    def bind_badly(cluster, node, pod):
        cluster.bind(node, pod)
        pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION] = text

    cluster.steps["a"] = bind_badly
    assert outcomes(await check("a"))[1] == ("fail", "AssignmentUnreadable")


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
async def test_a_pod_that_its_kubelet_does_not_run(cluster, check, status, expected):
    cluster.add("a")

    def refuse(cluster, node, pod):
        cluster.bind(node, pod)
        pod["status"] |= status

    cluster.steps["a"] = refuse
    found = await check("a")
    assert outcomes(found) == (expected, ("skipped", "NeedNotPassed"))
    assert status.get("message", "did not end in time") in evidence(found, Stage.PLUGIN_CHECK)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ErrImageNeverPull", ("unknown", "NoImage")),
        ("CreateContainerError", ("fail", "ContainerNotStarted")),
        ("ContainerCreating", ("unknown", "NotEnded")),
    ],
)
async def test_a_container_that_does_not_start(cluster, check, reason, expected):
    cluster.add("a")

    def wait(cluster, node, pod):
        cluster.bind(node, pod)
        waiting = {"reason": reason, "message": "unresolvable CDI devices"}
        pod["status"]["containerStatuses"] = [{"name": "check", "state": {"waiting": waiting}}]

    cluster.steps["a"] = wait
    found = await check("a")
    assert outcomes(found)[0] == expected
    assert "unresolvable CDI devices" in evidence(found, Stage.PLUGIN_CHECK)


async def test_a_pod_that_somebody_deletes_is_unknown(cluster, check):
    cluster.add("a")

    def bind_and_lose(cluster, node, pod):
        cluster.bind(node, pod)
        asyncio.get_running_loop().call_later(0.03, lambda: cluster.objects.pop(cluster.pod_path(node)))

    cluster.steps["a"] = bind_and_lose
    assert outcomes(await check("a")) == (("unknown", "PodGone"), ("skipped", "NeedNotPassed"))


SIMULATED = {"code": 0, "message": None}


@pytest.mark.parametrize(
    ("vendor", "ended", "expected"),
    [
        (
            "simulated",
            {"code": 2, "message": "Error: No such command 'share-check'."},
            ("NoEvidence", "No such command"),
        ),
        ("simulated", {"code": 137, "message": "", "reason": "OOMKilled"}, ("NoEvidence", "137 (OOMKilled)")),
        ("simulated", {"message": "x" * 20000}, ("NoEvidence", "longer than a kubelet keeps")),
        ("simulated", {"message": '{"version": 2}'}, ("NoEvidence", "version 2 is not known")),
        ("simulated", {"code": 1}, ("WorkFailed", "ended with 1")),
        ("simulated", {"told": {"memory_bytes": 2 * GIB}}, ("WrongLimit", "was told 2 GiB, and its share is 1 GiB")),
        ("simulated", {"told": {"memory_bytes": None}}, ("WrongLimit", "no limit")),
        ("simulated", {"told": {"variables": {}}}, ("WrongDevice", "it has no ACCELKIT_VISIBLE_DEVICES")),
        (
            "simulated",
            {"told": {"variables": {"ACCELKIT_VISIBLE_DEVICES": "all"}}},
            ("WrongDevice", "is all, and that"),
        ),
        ("nvidia", {"told": {"device_nodes": []}}, ("NoDeviceNode", "does not see /dev/nvidia3")),
        ("nvidia", {"told": {"device_nodes": ["/dev/nvidia0"]}}, ("WrongDevice", "does not see /dev/nvidia3")),
        (
            "nvidia",
            {"told": {"device_nodes": ["/dev/nvidia3", "/dev/nvidia4"]}},
            ("WrongDevice", "beside /dev/nvidia3"),
        ),
        ("nvidia", {"told": {"identities": ["GPU-other"]}}, ("WrongDevice", "its driver shows GPU-other")),
        (
            "nvidia",
            {"code": 1, "told": {"passed": False, "reason": "CudaFailed", "detail": "cuInit"}},
            ("CudaFailed", "cuInit"),
        ),
        ("nvidia", {"code": 1, "told": {"passed": False, "reason": "Forged"}}, ("WorkFailed", "ended with 1")),
    ],
)
async def test_what_the_container_says_is_judged(cluster, check, vendor, ended, expected):
    cluster.add("a", vendor)

    def end(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        given = dict(ended)
        if "told" in given:
            given["message"] = cluster.evidence(vendor, cluster.nodes[node]["id"], **given.pop("told"))
        cluster.end(node, pod, **given)

    cluster.steps["a"] = end
    found = await check("a")
    reason, words = expected
    assert outcomes(found) == (("fail", reason), ("skipped", "NeedNotPassed"))
    assert words in evidence(found, Stage.PLUGIN_CHECK)


async def test_a_variable_that_the_runtime_has_answered_says_nothing(cluster, check):
    cluster.add("a", "nvidia")

    def end(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        told = cluster.evidence("nvidia", "GPU-a", variables={"NVIDIA_VISIBLE_DEVICES": "void"}, identities=["GPU-a"])
        cluster.end(node, pod, message=f"a warning\n{told}\n")

    cluster.steps["a"] = end
    assert outcomes(await check("a")) == PASSED


@pytest.mark.parametrize("devices", [{"sim-b": 1}, {"sim-a": 2}, {}])
async def test_a_kubelet_that_gave_other_devices_fails_the_plugin(cluster, check, devices):
    cluster.add("a")
    cluster.held["a"] = devices
    assert outcomes(await check("a")) == (("fail", "KubeletDiffers"), ("pass", ""))


async def test_what_no_agent_shows_is_unknown(cluster, check):
    cluster.add("a")
    cluster.held["a"] = None
    assert outcomes(await check("a")) == (("unknown", "NotObserved"), ("pass", ""))


async def test_allocations_that_cannot_be_read_are_unknown(cluster, check):
    cluster.add("a")
    cluster.fail(ApiError("no"), "GET", "/configmaps", times=None)
    assert outcomes(await check("a")) == (("unknown", "NotObserved"), ("pass", ""))


async def test_what_an_agent_shows_late_counts(cluster, check, monkeypatch):
    monkeypatch.setattr(run, "AGREE_SECONDS", 5)
    cluster.add("a")
    cluster.held["a"] = None

    def end(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        cluster.end(node, pod)

        def show():
            cluster.held.clear()
            cluster.admit(node, pod)

        asyncio.get_running_loop().call_later(0.05, show)

    cluster.steps["a"] = end
    assert outcomes(await check("a")) == PASSED


@pytest.mark.parametrize("counted", [None, 2 * GIB])
async def test_a_ledger_that_counts_otherwise_fails_the_extender(cluster, check, counted):
    cluster.add("a")
    cluster.counted["a"] = counted
    assert outcomes(await check("a")) == (("pass", ""), ("fail", "LedgerDiffers"))


async def test_an_extender_that_does_not_answer_is_unknown(cluster, check):
    cluster.add("a")
    cluster.ledger_error = ServiceError("no way to it")
    found = await check("a")
    assert outcomes(found) == (("pass", ""), ("unknown", "LedgerUnread"))
    assert "no way to it" in evidence(found, Stage.EXTENDER_CHECK)


async def test_a_node_that_was_rebooted_meanwhile_is_not_judged(cluster, check):
    cluster.add("a")

    def reboot(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        cluster.end(node, pod)
        cluster.node(node)["status"]["nodeInfo"]["bootID"] = "c"

    cluster.steps["a"] = reboot
    found = await check("a")
    assert outcomes(found) == (("unknown", "StateChanged"),) * 2
    assert (found["a"].before.boot_id, found["a"].after.boot_id) == ("b", "c")


async def test_a_node_that_leaves_meanwhile_is_unknown(cluster, check):
    cluster.add("a")

    def leave(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        cluster.end(node, pod)
        del cluster.objects["/api/v1/nodes/a"]

    cluster.steps["a"] = leave
    assert outcomes(await check("a")) == (("unknown", "NodeGone"),) * 2


@pytest.mark.parametrize("answered", [True, False])
async def test_a_creation_without_an_answer_is_asked_for_again(cluster, check, answered):
    cluster.add("a")
    cluster.fail(ApiError("no answer"), "POST", "/pods", answered=answered)
    assert outcomes(await check("a")) == PASSED
    assert len(cluster.created) == 2
    assert len({pod["metadata"]["annotations"][RUN_ANNOTATION] for pod in cluster.created}) == 1


async def test_an_api_server_that_never_answers_is_unknown_and_is_asked_three_times(cluster, check):
    cluster.add("a")
    cluster.fail(ApiError("no answer"), "POST", "/pods", times=None)
    assert outcomes(await check("a")) == (("unknown", "ApiUnanswered"),) * 2
    assert len(cluster.created) == 3


async def test_a_refused_pod_is_unknown(cluster, check):
    cluster.add("a")
    cluster.fail(ApiError("violates PodSecurity", status=403, reason="Forbidden"), "POST", "/pods")
    found = await check("a")
    assert outcomes(found) == (("unknown", "PodRefused"),) * 2
    assert "violates PodSecurity" in evidence(found, Stage.PLUGIN_CHECK)


async def test_what_a_killed_run_left_goes_first(cluster, check):
    cluster.add("a")
    labels = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "share-check"}
    for name in (name_pod("a"), name_pod("other")):
        cluster.store("/api/v1/namespaces/accelkit/pods", {"metadata": {"name": name, "uid": name, "labels": labels}})
    assert outcomes(await check("a")) == PASSED
    kinds = [each.method for each in cluster.done if each.path.startswith("/api/v1/namespaces/accelkit/pods/")]
    assert kinds[:2] == ["DELETE", "DELETE"]


async def test_a_pod_that_does_not_go_stops_the_check_of_its_node_alone(cluster, check_pods, monkeypatch):
    monkeypatch.setattr(pod_life, "_GONE_SECONDS", 0.0)
    cluster.add("a")
    cluster.add("away")
    labels = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "share-check"}
    left = {"metadata": {"name": name_pod("away"), "uid": "left", "labels": labels}, "spec": {}}
    cluster.store("/api/v1/namespaces/accelkit/pods", left)

    def stay(request):
        # Its kubelet never says that its containers have ended.
        if request.method == "DELETE" and request.path == cluster.pod_path("away"):
            cluster.store("/api/v1/namespaces/accelkit/pods", left)

    cluster.after.append(stay)
    found = await check_nodes(cluster, ["a", "away"], check_pods, ledger=cluster.ledger)
    assert outcomes(found) == PASSED
    assert outcomes(found, "away") == (("unknown", "OtherRun"),) * 2


async def test_the_pod_of_another_run_is_left_alone(cluster, check_pods):
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


async def test_a_pod_that_a_kubelet_mirrors_keeps_no_other_node_from_its_check(cluster, check_pods, monkeypatch):
    monkeypatch.setattr(pod_life, "_GONE_SECONDS", 0.0)
    cluster.add("a")
    labels = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "share-check"}
    marks = {"kubernetes.io/config.mirror": "x"}
    metadata = {"name": name_pod("a"), "uid": "theirs", "labels": labels, "annotations": marks}
    cluster.store("/api/v1/namespaces/accelkit/pods", {"metadata": metadata, "spec": {"nodeName": "evil"}})
    found = await check_nodes(cluster, ["a"], check_pods, ledger=cluster.ledger)
    assert outcomes(found) == PASSED
    assert cluster.pods == [f"/api/v1/namespaces/accelkit/pods/{name_pod('a')}"]


async def test_pods_go_when_the_run_is_broken_off(cluster, check_pods):
    cluster.add("a")
    cluster.steps["a"] = lambda cluster, node, pod: cluster.bind(node, pod)
    running = asyncio.create_task(check_nodes(cluster, ["a"], check_pods, ledger=cluster.ledger))
    while not cluster.pods:
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cluster.pods == []


async def test_a_defect_of_ours_leaves_no_pod(cluster, check_pods, monkeypatch):
    cluster.add("a")
    monkeypatch.setattr(run, "judge_container", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await check_nodes(cluster, ["a"], check_pods, ledger=cluster.ledger)
    assert cluster.pods == []


async def test_the_looks_at_ledger_and_kubelets_are_shared(cluster, check):
    for number in range(8):
        cluster.add(f"n{number}")
    await check(*(f"n{number}" for number in range(8)))
    maps = [each for each in cluster.requests if each.path.endswith("/configmaps")]
    assert len(maps) < 8, json.dumps(len(maps))


async def test_what_was_found_stands_where_a_deletion_is_not_answered(cluster, check):
    cluster.add("a")
    cluster.fail(ApiError("no answer"), "DELETE", times=3)
    assert outcomes(await check("a")) == PASSED


async def test_an_assignment_that_is_broken_meanwhile_stops_no_other_node(cluster, check):
    cluster.add("a")
    cluster.add("b")
    cluster.held["a"] = None

    def end(cluster, node, pod):
        cluster.bind(node, pod)
        cluster.admit(node, pod)
        cluster.end(node, pod)
        annotations = pod["metadata"]["annotations"]
        asyncio.get_running_loop().call_later(0.02, lambda: annotations.update({ASSIGNMENT_ANNOTATION: "{"}))

    cluster.steps["a"] = end
    found = await check("a", "b")
    assert outcomes(found) == (("unknown", "NotPlaced"), ("fail", "AssignmentUnreadable"))
    assert outcomes(found, "b") == PASSED
