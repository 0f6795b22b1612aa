"""The modules of drivers: what they ask of accelkit, and what they answer."""

import json

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import (
    driver_plan,
    future_check,
    node_cordon,
    node_drain,
    node_driver,
)

pytest.importorskip("fake_api.server")

from driver_nodes import KERNEL, OTHER, build_card, write_node
from fake_api.server import FakeApi

from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.keys import DRIVER_KERNEL_LABEL, DRIVER_VENDOR_LABEL_PREFIX

VENDORS = {"nvidia": {"version": "550", "image": "i:${DRIVER_VERSION}-${KERNEL_FULL_VERSION}"}}
VENDOR = {f"{DRIVER_VENDOR_LABEL_PREFIX}nvidia": "true"}
A = build_node_path("a")


@pytest.fixture
def api(monkeypatch, kubeconfig):
    found = FakeApi()
    found.documents["/version"] = {"gitVersion": "v1.34.4"}
    for module in (driver_plan, future_check, node_cordon, node_drain, node_driver):
        monkeypatch.setattr(module, "call", lambda _module, function: run(function(found)))
    return found


def run(coroutine):
    import asyncio  # noqa: PLC0415

    return asyncio.run(coroutine)


def container(**changed):
    return {"vendors": VENDORS, "mode": "container", **changed}


def test_driver_plan_returns_sets_and_problems_without_writing(run_module, api):
    api.store(NODES, write_node("a"))
    api.store(NODES, write_node("b", ready="False"))
    answer = run_module(driver_plan, container())
    assert (answer["changed"], api.writes) == (False, [])
    [planned] = answer["sets"]
    assert (planned["kernel"], planned["nodes"], planned["image"]) == (KERNEL, ["a"], f"i:550-{KERNEL}")
    [problem] = [each for each in answer["problems"] if each["reason"] == "NodeNotReady"]
    assert (problem["reason"], problem["nodes"], problem["wrong"]) == ("NodeNotReady", ["b"], False)
    assert "kubectl describe node" in problem["message"]
    assert answer["vendors"] == {"a": ["nvidia"], "b": ["nvidia"]}
    assert (answer["missing"], answer["module_manager"]) == ([], False)


def test_kernel_labels_are_added_once_and_removed(run_module, api):
    api.store(NODES, write_node("a"))
    would = run_module(driver_plan, container(state="recorded"), check=True)
    assert (would["changed"], would["after"], api.writes) == (True, {"a": {DRIVER_KERNEL_LABEL: KERNEL, **VENDOR}}, [])
    assert run_module(driver_plan, container(state="recorded"))["changed"]
    assert api.objects[A]["metadata"]["labels"][DRIVER_KERNEL_LABEL] == KERNEL
    assert not run_module(driver_plan, container(state="recorded"))["changed"]
    assert run_module(driver_plan, {"state": "absent"})["changed"]
    assert DRIVER_KERNEL_LABEL not in api.objects[A]["metadata"]["labels"]
    assert not run_module(driver_plan, {"state": "absent"})["changed"]


def test_package_mode_plans_no_daemon_sets(run_module, api):
    api.store(NODES, write_node("a", cards=(build_card(driver="535"),)))
    answer = run_module(driver_plan, {"vendors": VENDORS, "mode": "package", "state": "recorded"})
    assert (answer["sets"], answer["changed"]) == ([], False)
    why = "the nvidia driver has version 535, but 550 is required"
    assert answer["outdated"] == [{"node": "a", "why": why, "cordoned": False}]


def test_node_cordon_starts_resumes_and_completes_upgrade(run_module, api):
    api.store(NODES, write_node("a"))
    begun = run_module(node_cordon, {"state": "cordoned", "name": "a", "target": "550"})
    assert (begun["changed"], begun["phase"], begun["ours"]) == (True, "drain", True)
    assert api.objects[A]["spec"]["unschedulable"]
    advanced = {"state": "advanced", "name": "a", "phase": "upgrade", "began_at": begun["began_at"]}
    assert run_module(node_cordon, advanced)["phase"] == "upgrade"
    again = run_module(node_cordon, {"state": "cordoned", "name": "a", "target": "550"})
    assert (again["changed"], again["phase"], again["began_at"]) == (False, "upgrade", begun["began_at"])
    ended = run_module(node_cordon, {"state": "released", "name": "a"})
    assert (ended["changed"], ended["phase"]) == (True, "")
    assert "unschedulable" not in api.objects[A]["spec"]
    assert not run_module(node_cordon, {"state": "released", "name": "a"})["changed"]


def test_upgrade_failure_is_recorded_on_node(run_module, api):
    api.store(NODES, write_node("a"))
    run_module(node_cordon, {"state": "cordoned", "name": "a"})
    run_module(node_cordon, {"state": "released", "name": "a", "failure": "it hangs"})
    record = json.loads(api.objects[A]["metadata"]["annotations"]["accelkit.io/driver-upgrade"])
    assert (record["phase"], record["reason"], record["evidence"]) == ("failed", "UpgradeFailed", "it hangs")
    assert not run_module(node_cordon, {"state": "released", "name": "a"})["changed"]


def test_advancing_upgrade_requires_began_at(run_module, api):
    assert "began_at" in run_module(node_cordon, {"state": "advanced", "name": "a", "phase": "upgrade"})["msg"]


def test_node_drain_evicts_nothing_on_unused_node(run_module, api):
    api.store(NODES, write_node("a"))
    answer = run_module(node_drain, {"name": "a", "vendor": "nvidia"})
    assert (answer["changed"], answer["evicted"], answer["staying"]) == (False, [], [])


def test_node_driver_does_not_wait_for_ready_driver(run_module, api):
    api.store(NODES, write_node("a", cards=(build_card(driver="550"),)))
    answer = run_module(node_driver, {"name": "a", "versions": {"nvidia": "550"}})
    assert (answer["changed"], answer["deleted"]) == (False, [])


def test_future_check_returns_answer_for_each_node_and_aspect(run_module, api):
    api.store(NODES, write_node("a", kernel=OTHER))
    api.store(NODES, write_node("b", kubelet="v1.29.1"))
    api.store(NODES, write_node("c", vendors=()))
    api.documents["/metrics"] = b""
    answer = run_module(future_check, {"kernel": OTHER, "kubernetes": "1.35"})
    found = {(each["node"], each["aspect"]): each["works"] for each in answer["answers"]}
    assert found == {
        ("a", "kernel"): "yes",
        ("a", "kubernetes"): "yes",
        ("b", "kernel"): "unknown",
        ("b", "kubernetes"): "no",
        ("c", "kernel"): "yes",
        ("c", "kubernetes"): "yes",
    }
    assert (answer["refused"], answer["unknown"], answer["changed"]) == (["b"], [], False)
    assert all(each["evidence"] and each["next_action"] for each in answer["answers"])


OPERATOR = {"kmm.node.kubernetes.io/kmm.nvidia.ready": ""}


def test_node_with_foreign_driver_is_excluded_unless_adopted(run_module, api):
    api.store(NODES, write_node("a", labels=OPERATOR))
    answer = run_module(driver_plan, container())
    assert (answer["sets"], answer["vendors"]) == ([], {})
    assert answer["owned"] == {"a": {"nvidia": "Kernel Module Management"}}
    adopted = run_module(driver_plan, container(adopt=True))
    assert ([each["nodes"] for each in adopted["sets"]], adopted["owned"]) == ([["a"]], {})


def test_preinstalled_mode_includes_nodes_with_foreign_driver(run_module, api):
    api.store(NODES, write_node("a", labels=OPERATOR))
    answer = run_module(driver_plan, container(mode="preinstalled"))
    assert (answer["vendors"], answer["owned"]) == ({"a": ["nvidia"]}, {})
