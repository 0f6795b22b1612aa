"""The stages `driver` and `driver-check`, and that they know the agent's sentences."""

import pytest

from accelkit.enablement.facts.node_facts import Holders
from accelkit.enablement.reasons import StageReason
from accelkit.errors import DevicePluginError
from accelkit.inspection.card_faults import _UNBOUND, CardFaultCode
from accelkit.inspection.provided_driver import build_label
from accelkit.model.card import Card, Health
from accelkit.model.card_loss import GONE_FROM_NODE, is_lost
from accelkit.model.stage import Stage
from accelkit.node.device_plugin.container_response import list_card_nodes
from accelkit.node.discovery import FoundCard
from accelkit.node.health.card_history import CardHistory
from accelkit.node.health.monitor import _find_foreign_driver
from accelkit.node.health.signals import Signals
from accelkit.vendors.profiles import load_profiles

DRIVER, CHECK = Stage.DRIVER, Stage.DRIVER_CHECK
NVIDIA = load_profiles()["nvidia"]


def told_by_agent(before, after):
    history = CardHistory()
    history.observe(before, 0.0)
    for now in (10.0, 20.0):
        history.observe(after, now)
    assert history.health is Health.UNHEALTHY
    return history.reason


def lose_driver():
    return told_by_agent(Signals(present=True, driver="nvidia", bound=True), Signals(present=True, bound=False))


def take_driver():
    seen = {"present": True, "bound": True}
    return told_by_agent(Signals(driver="nvidia", **seen), Signals(driver="vfio-pci", **seen))


def find_foreign_driver():
    return _find_foreign_driver(FoundCard(Card("c", "nvidia", "m", 1), 0, 0, NVIDIA, driver="nouveau"))


def find_no_number():
    with pytest.raises(DevicePluginError) as caught:
        list_card_nodes(FoundCard(Card("c", "nvidia", "m", 1), 0, None, NVIDIA))
    return str(caught.value)


def lose_card():
    return told_by_agent(Signals(present=True), Signals(present=False))


def miss_card():
    # Of a card that is no PCI device, or of which the agent has no signals, it writes this one.
    return GONE_FROM_NODE


def silence_card():
    return told_by_agent(Signals(present=True, answers=True), Signals(present=True, answers=False))


@pytest.mark.parametrize("tell", [lose_driver, take_driver, find_foreign_driver, find_no_number])
def test_agent_health_reasons_for_missing_driver_are_recognized(cluster, told, tell):
    reason = tell()
    assert _UNBOUND.search(reason)
    assert not is_lost(Card("c", "v", "m", 1, health=Health.UNHEALTHY, health_reason=reason))
    cluster.node.change_card(health=Health.UNHEALTHY, health_reason=reason)
    results = cluster.judge()
    assert told(results, DRIVER) == ("fail", "DriverMissing")
    assert results[DRIVER].evidence == f"card GPU-n-0: {reason}"


@pytest.mark.parametrize("tell", [lose_card, miss_card, silence_card])
def test_agent_health_reasons_for_lost_card_are_recognized(cluster, told, tell):
    reason = tell()
    assert not _UNBOUND.search(reason)
    cluster.node.change_card(1, health=Health.UNHEALTHY, health_reason=reason)
    results = cluster.judge()
    assert told(results, DRIVER) == ("pass", "")
    assert told(results, CHECK) == ("fail", "CardLost")
    assert results[CHECK].evidence == f"card GPU-n-1: {reason}"


def test_other_health_problem_fails_driver_check_as_unhealthy_card(cluster, told):
    cluster.node.change_card(health=Health.UNHEALTHY, health_reason="3 uncorrected errors in umc")
    assert told(cluster.judge(), CHECK) == ("fail", "CardUnhealthy")


def test_card_with_unreadable_health_is_unknown(cluster, told):
    cluster.node.change_card(health=Health.UNKNOWN, health_reason="config cannot be read")
    results = cluster.judge()
    assert told(results, CHECK) == ("unknown", "CardHealthUnknown")
    assert results[CHECK].evidence == "card GPU-n-0: config cannot be read"


@pytest.mark.parametrize(("kernel", "reason"), [("6.8.0-45", ""), ("6.8.0-44", "KernelDriverMismatch")])
def test_kernel_of_installed_driver_is_compared_with_running_kernel(cluster, kernel, reason):
    cluster.node.labels["accelkit.io/driver-kernel"] = kernel
    results = cluster.judge()
    assert results[DRIVER].evidence.startswith(f"container: accelkit installs it for kernel {kernel}; ")
    assert results[CHECK].reason == reason
    if reason:
        assert results[CHECK].evidence == "the driver was chosen for kernel 6.8.0-44, but the node runs kernel 6.8.0-45"


@pytest.mark.parametrize("kernel", ["6.8+odd", "k" * 80])
def test_kernel_name_is_normalized_like_its_label_before_comparison(cluster, kernel):
    cluster.node.labels["accelkit.io/driver-kernel"] = build_label(kernel)
    cluster.node.info["kernelVersion"] = kernel
    assert cluster.judge()[CHECK].outcome == "pass"
    cluster.node.labels["accelkit.io/driver-kernel"] = build_label(f"{kernel}1")
    assert cluster.judge()[CHECK].reason == "KernelDriverMismatch"


def test_missing_kernel_version_causes_no_mismatch(cluster):
    cluster.node.labels["accelkit.io/driver-kernel"] = "6.8.0-45"
    cluster.node.info["kernelVersion"] = ""
    assert cluster.judge()[CHECK].outcome == "pass"


def test_two_driver_versions_of_one_vendor_fail(cluster, told):
    cluster.node.change_card(driver_version="535.1")
    results = cluster.judge()
    assert told(results, CHECK) == ("fail", "KernelDriverMismatch")
    assert results[CHECK].evidence == "cards of nvidia report the drivers 535.1, 550.54"


def test_in_tree_driver_without_version_passes(cluster):
    for index in range(2):
        cluster.node.change_card(index, driver_version="")
    assert cluster.judge()[CHECK].evidence == "2 cards are healthy; driver of the kernel 6.8.0-45"


def test_driver_version_hidden_by_broken_library_is_unknown(cluster, told):
    cluster.node.change_card(driver_version="")
    cluster.node.inventory["library_problems"] = ("library libnvidia-ml.so.1 of nvidia is broken: version mismatch",)
    results = cluster.judge()
    assert told(results, CHECK) == ("unknown", "DriverVersionUnknown")
    assert (
        "of GPU-n-0 is unknown: library libnvidia-ml.so.1 of nvidia is broken: version mismatch"
        in results[CHECK].evidence
    )


def test_missing_vendor_library_passes_and_is_reported(cluster):
    for index in range(2):
        cluster.node.change_card(index, driver_version="")
    cluster.node.inventory["library_problems"] = (
        "library libnvidia-ml.so.1 of nvidia is missing: nowhere",
        "library libefml.so of enflame is missing: nowhere",
    )
    result = cluster.judge()[CHECK]
    assert result.outcome == "pass"
    assert result.evidence == (
        "2 cards are healthy; driver version unknown (library libnvidia-ml.so.1 of nvidia is missing: nowhere)"
    )


def test_library_problem_of_another_vendor_is_ignored(cluster):
    cluster.node.change_card(driver_version="")
    cluster.node.inventory["library_problems"] = ("library libefml.so of enflame is broken: none found",)
    assert cluster.judge()[CHECK].outcome == "pass"


OPERATOR = {"n": Holders(cards="HAMi, the operator", driver="the operator")}


@pytest.mark.parametrize(
    ("given", "whose"),
    [
        ({}, "preinstalled: the node has its own"),
        ({"holders": OPERATOR}, "preinstalled: the operator installs it"),
        ({"holders": {"n": Holders(cards="HAMi")}}, "preinstalled: the node has its own"),
        ({"driver_mode": "package"}, "package: accelkit installs the packages on the host"),
        ({"driver_mode": "package", "holders": OPERATOR}, "preinstalled: the operator installs it"),
        ({"driver_mode": "container"}, "preinstalled: the node has its own"),
    ],
)
def test_driver_installer_is_reported(cluster, given, whose):
    assert cluster.judge(**given)[DRIVER].evidence.startswith(whose)


def test_containerized_driver_is_reported_with_its_pod(cluster):
    cluster.node.labels["accelkit.io/driver-kernel"] = "6.8.0-45"
    assert cluster.judge(holders=OPERATOR)[DRIVER].evidence == (
        "container: accelkit installs it for kernel 6.8.0-45; its pod is missing on the node"
    )
    cluster.node.pods.append(cluster.node.build_pod("driver-container"))
    assert cluster.judge()[DRIVER].evidence.endswith("; pod driver-container-n is ready")


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("kmm.node.kubernetes.io/accelkit.accelkit-driver-nvidia.ready", "kmm: Kernel Module Management loads"),
        ("kmm.node.kubernetes.io/other.accelkit-driver-nvidia.ready", "preinstalled: "),
        ("kmm.node.kubernetes.io/accelkit.nvidia.ready", "preinstalled: "),
    ],
)
def test_driver_loaded_by_kmm_for_accelkit_is_reported(cluster, key, told):
    cluster.node.labels[key] = ""
    assert cluster.judge()[DRIVER].evidence.startswith(told)


@pytest.mark.parametrize("code", CardFaultCode)
def test_each_card_fault_code_is_a_stage_reason(code):
    assert StageReason(code)
