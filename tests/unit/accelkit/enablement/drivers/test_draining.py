"""Who leaves a node before its driver goes, and in which order."""

import msgspec
import pytest
from driver_nodes import build_card, build_node

from accelkit.enablement.drivers.upgrading.validation import validate
from accelkit.enablement.drivers.upgrading.waves import CardUsers, DrainablePod, plan_waves
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Health
from accelkit.model.keys import MIRROR_ANNOTATION, STAGES_ANNOTATION
from accelkit.model.stage import NodeState, Outcome, Stage, StageRecord, StageResult, write_record
from accelkit.vendors.profiles import load_profiles

CARDS = (build_card(0), build_card(1, vendor="amd"))
SHARED = {"accelkit.io/memory", "accelkit.io/cards"}


def users(vendor="nvidia", cards=CARDS):
    return CardUsers(vendor, cards, load_profiles(), SHARED)


def pod(
    name="p", *, resources=None, priority=None, owner="ReplicaSet", cards=None, phase="Running", controls=True, **spec
):
    annotations = {}
    if cards is not None:
        shares = tuple(Share(card, 1) for card in cards)
        annotations = {"accelkit.io/assignment": encode_assignment(Assignment({"main": shares}))}
    container = {"name": "main", "resources": {"limits": dict.fromkeys(resources or (), "1")}}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "annotations": annotations,
                "ownerReferences": [{"kind": owner, "controller": controls}] if owner else [],
            },
            "spec": {"containers": [container], "priority": priority, **spec},
            "status": {"phase": phase},
        },
        DrainablePod,
    )


def build_static_pod(**given):
    """A kubelet's own, as it shows it to the API server."""
    static = pod("static", owner="Node", **given)
    static.metadata.annotations[MIRROR_ANNOTATION] = "hash"
    return static


@pytest.mark.parametrize(
    ("resources", "cards", "uses"),
    [
        ([], None, False),
        (["cpu"], None, False),
        (["nvidia.com/gpu"], None, True),
        (["nvidia.com/mig-1g.5gb"], None, True),
        (["amd.com/gpu"], None, False),
        (["accelkit.io/memory"], None, True),
        (["accelkit.io/memory"], ["card-0"], True),
        (["accelkit.io/memory"], ["card-1"], False),
        (["accelkit.io/memory"], ["card-0", "card-1"], True),
        (["accelkit.io/memory"], ["card-of-nobody"], True),
        (["accelkit.io/cards"], [], True),
    ],
)
def test_pods_with_cards_of_vendor_or_unknown_cards_are_drained(resources, cards, uses):
    assert users().includes(pod(resources=resources, cards=cards)) is uses


def test_invalid_assignment_counts_as_card_use():
    found = pod(resources=["accelkit.io/memory"], cards=["card-1"])
    found.metadata.annotations = {"accelkit.io/assignment": "{"}
    assert users().includes(found)
    assert users(cards=None).includes(pod(resources=["accelkit.io/memory"], cards=["card-1"]))


def test_resource_claims_and_init_containers_count_as_card_use():
    assert users().includes(pod(resourceClaims=[{"name": "gpu"}]))
    container = {"name": "init", "resources": {"requests": {"nvidia.com/gpu": 1}}}
    assert users().includes(pod(initContainers=[container]))


def test_cards_of_all_vendors_count_without_vendor_filter():
    assert users(vendor="").includes(pod(resources=["amd.com/gpu"]))
    assert users(vendor="").includes(pod(resources=["accelkit.io/memory"], cards=["card-1"]))


def test_pods_with_lowest_priority_are_evicted_first():
    gpu = ["nvidia.com/gpu"]
    pods = [
        pod("high", resources=gpu, priority=1000),
        pod("b-low", resources=gpu, priority=-5),
        pod("none", resources=gpu),
        pod("a-low", resources=gpu, priority=-5),
        pod("other", priority=-100),
        pod("ended", resources=gpu, priority=-100, phase="Succeeded"),
        pod("agent", resources=gpu, priority=-100, owner="DaemonSet"),
        build_static_pod(resources=gpu, priority=-100),
    ]
    waves = plan_waves(pods, users())
    assert [each.ref.name for each in waves.next] == ["a-low", "b-low"]
    assert waves.later == 2
    assert sorted(each.ref.name for each in waves.staying) == ["agent", "static"]


@pytest.mark.parametrize(("owner", "controls"), [("DaemonSet", False), ("Node", True)])
def test_pod_with_node_owner_or_non_controller_owner_is_evicted(owner, controls):
    named = pod("named", resources=["nvidia.com/gpu"], owner=owner, controls=controls)
    waves = plan_waves([named], users())
    assert (waves.next, waves.staying) == ((named,), ())


def test_node_without_card_users_needs_no_eviction():
    waves = plan_waves([pod()], users())
    assert (waves.next, waves.later, waves.staying) == ((), 0, ())


@pytest.mark.parametrize(
    ("cards", "target", "reason"),
    [
        (None, "550", "DriverVersionUnknown"),
        ((), "550", "DriverMissing"),
        ((build_card(1, vendor="amd"),), "550", "DriverMissing"),
        ((build_card(),), "550", "DriverVersionUnknown"),
        ((build_card(),), "", ""),
        ((build_card(driver="535"),), "550", "DriverOther"),
        ((build_card(driver="550"),), "550", ""),
        ((build_card(driver="550", health=Health.UNHEALTHY, reason="Xid 79"),), "550", "CardUnhealthy"),
        ((build_card(driver="550", health=Health.UNKNOWN),), "550", ""),
    ],
)
def test_driver_validation_follows_cards_reported_by_agent(cards, target, reason):
    found = validate(build_node("a", cards=cards, cordoned=True), "nvidia", target)
    assert (found.works, found.reason) == (not reason, reason or None)


def test_validation_waits_for_node_that_is_not_ready():
    assert validate(build_node("a", cards=(build_card(),), ready="Unknown"), "nvidia", "").reason == "NodeNotReady"


@pytest.mark.parametrize(
    ("result", "works"),
    [
        (StageResult(Outcome.FAIL, "NoDevice", found_at=20.0), False),
        (StageResult(Outcome.FAIL, "NoDevice", found_at=5.0), True),
        (StageResult(Outcome.PASS, found_at=20.0), True),
        (StageResult(Outcome.FAIL, "NoDevice", found_at=20.0, state=NodeState(boot_id="boot-0")), True),
    ],
)
def test_driver_check_counts_only_for_this_boot_and_upgrade(result, works):
    record = StageRecord({Stage.DRIVER_CHECK: result})
    node = build_node("a", cards=(build_card(driver="550"),), annotations={STAGES_ANNOTATION: write_record(record)})
    assert validate(node, "nvidia", "550", began_at=10.0).works is works
