"""The stages `runtime-hook` and `device-plugin`."""

import pytest

from accelkit.enablement.facts.unread import Unread
from accelkit.model.stage import Stage

HOOK, PLUGIN = Stage.RUNTIME_HOOK, Stage.DEVICE_PLUGIN


@pytest.mark.parametrize(
    ("runtime", "outcome", "end"),
    [
        ("containerd://2.1.0", "pass", "containerd://2.1.0"),
        ("containerd://1.7.27", "pass", "if its option enable_cdi is true"),
        ("containerd://1.6.8", "fail", "does not support CDI names"),
        ("cri-o://1.22.1", "fail", "does not support CDI names"),
        ("cri-o://1.34.0", "pass", "cri-o://1.34.0"),
        ("simulated://1", "pass", "simulated://1"),
        (f"containerd://{'9' * 5000}.0", "pass", "…"),
        ("", "pass", "a runtime that its kubelet does not report"),
    ],
)
def test_cdi_devices_require_container_runtime_with_cdi_support(cluster, runtime, outcome, end):
    cluster.node.inventory["cdi"] = ("nvidia.com/gpu",)
    cluster.node.info["containerRuntimeVersion"] = runtime
    result = cluster.judge()[HOOK]
    assert (result.outcome, result.reason) == (outcome, "RuntimeWithoutCdi" if outcome == "fail" else "")
    assert result.evidence.endswith(end)


def test_plain_device_nodes_work_with_every_container_runtime(cluster):
    cluster.node.info["containerRuntimeVersion"] = "containerd://1.6.8"
    result = cluster.judge()[HOOK]
    assert (result.outcome, result.evidence) == (
        "pass",
        "containers get plain device nodes, which every runtime supports",
    )


def test_allocatable_resources_are_reported(cluster):
    evidence = cluster.judge()[PLUGIN].evidence
    assert evidence == "pod node-agent-n is ready; allocatable: accelkit.io/cards: 2, accelkit.io/memory: 160"


def test_crashing_agent_is_reported_with_its_termination_message(cluster, told):
    cluster.node.wait(
        restartCount=7,
        state={"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
        lastState={"terminated": {"exitCode": 1, "reason": "Error", "message": "no cluster is configured"}},
    )
    results = cluster.judge()
    assert told(results, PLUGIN) == ("fail", "AgentCrashes")
    assert results[PLUGIN].evidence == (
        "the node agent: pod node-agent-n: container node-agent exited with code 1 after 7 restarts "
        "(Error: no cluster is configured)"
    )
    assert results[PLUGIN].next_action.startswith("Read its previous log: kubectl -n accelkit logs --previous")


@pytest.mark.parametrize(
    ("change", "reason", "evidence"),
    [
        (
            lambda node: node.wait(state={"waiting": {"reason": "ImagePullBackOff"}}),
            "AgentNotReady",
            "the node agent: pod node-agent-n is waiting, container node-agent: ImagePullBackOff",
        ),
        (
            lambda node: node.wait(state={}),
            "AgentNotReady",
            "the node agent: pod node-agent-n is Running and not ready",
        ),
        (
            lambda node: node.allocatable.update({"accelkit.io/memory": "0"}),
            "NothingAllocatable",
            "accelkit.io/memory has 0 allocatable of a capacity of 160",
        ),
        (
            lambda node: (node.allocatable.clear(), node.capacity.clear()),
            "NotAdvertised",
            "accelkit.io/cards is not registered; accelkit.io/memory is not registered",
        ),
        (
            lambda node: node.inventory.update(problem="the list of devices would take 5 MiB"),
            "UnitRefused",
            "the list of devices would take 5 MiB",
        ),
    ],
    ids=["waiting", "not ready", "capacity alone", "not registered", "unit refused"],
)
def test_faults_of_agent_or_resources_are_reported(cluster, told, change, reason, evidence):
    change(cluster.node)
    results = cluster.judge()
    assert told(results, PLUGIN) == ("fail", reason)
    assert results[PLUGIN].evidence == evidence


@pytest.mark.parametrize(
    "change",
    [
        lambda pod: pod["metadata"].update(deletionTimestamp="2030-01-01T00:00:00Z"),
        lambda pod: pod["status"].update(phase="Failed"),
        lambda pod: pod["spec"].update(nodeName="m"),
        lambda pod: pod["metadata"]["labels"].update({"app.kubernetes.io/component": "kernel-caches"}),
        lambda pod: pod["metadata"]["labels"].update({"pod-template-hash": "1"}),
    ],
)
def test_terminating_or_foreign_pod_does_not_count_as_agent(cluster, told, change):
    change(cluster.node.pods[0])
    assert told(cluster.judge(), PLUGIN) == ("fail", "AgentMissing")


def test_ready_agent_counts_during_agent_replacement(cluster):
    cluster.node.pods.append(cluster.node.build_pod("node-agent", conditions=[]))
    assert cluster.judge()[PLUGIN].outcome == "pass"


def test_withheld_resource_is_reported_with_its_cause(cluster):
    cluster.node.allocatable, cluster.node.capacity = {"accelkit.io/cards": "2"}, {"accelkit.io/cards": "2"}
    cluster.node.inventory["withheld"] = ("accelkit.io/memory",)
    evidence = cluster.judge()[PLUGIN].evidence
    said = "accelkit.io/memory is withheld, because the ConfigMap accelkit-managed-resources does not list it"
    assert evidence == f"{said}; run site.yml"


def test_whole_cards_are_sufficient_if_card_memory_is_unknown(cluster):
    for index in range(2):
        cluster.node.change_card(index, memory_bytes=None)
    cluster.node.allocatable = {"accelkit.io/cards": "2"}
    assert cluster.judge()[PLUGIN].outcome == "pass"


@pytest.mark.parametrize(("amount", "outcome"), [("16", "pass"), ("0", "fail")])
def test_resources_of_another_dialect_count_if_agent_advertises_them(cluster, amount, outcome):
    cluster.node.annotations["accelkit.io/advertised"] = "enflame.com/gcu-count,enflame.com/gcu-memory"
    cluster.node.allocatable = {"enflame.com/gcu-memory": amount}
    assert cluster.judge()[PLUGIN].outcome == outcome


def test_pending_unit_change_is_reported_in_evidence(cluster):
    cluster.node.inventory["next_unit_bytes"] = 2**31
    assert cluster.judge()[PLUGIN].evidence.endswith("; after the current pods end, it will use the unit 2 GiB")


def test_device_plugin_stage_is_unknown_if_pods_cannot_be_listed(cluster, told):
    results = cluster.judge(pods=Unread("pods is forbidden"))
    assert told(results, PLUGIN) == ("unknown", "PodsUnread")
    assert results[PLUGIN].evidence == "the pods of accelkit cannot be listed: pods is forbidden"
    assert told(results, HOOK) == ("pass", "")
