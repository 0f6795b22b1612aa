"""Who owns a node's cards, told by objects as operators and drivers write them."""

import msgspec
import pytest

from accelkit.enablement.ownership.evidence import Cluster, OwnerState, find_owners
from accelkit.enablement.ownership.fate import Fate, judge_nodes
from accelkit.enablement.ownership.objects import DaemonSet, ResourceSlice, list_trusted_namespaces
from accelkit.enablement.ownership.owners import HeldPart
from accelkit.kube.views.metadata import PartialObject
from accelkit.model.pod import Node

DEPLOY = {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.deploy.driver": "true"}


def node(name="a", *, labels=None, annotations=None, allocatable=None, capacity=None):
    status = {"allocatable": {"cpu": "4", **(allocatable or {})}, "capacity": capacity or allocatable or {}}
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "status": status}, Node)


def daemon_set(namespace, labels, *, selector=None, name="plugin"):
    spec = {"nodeSelector": selector or {}}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": template}}, DaemonSet
    )


def devices(driver, **spec):
    return msgspec.convert({"metadata": {"name": "s"}, "spec": {"driver": driver, **spec}}, ResourceSlice)


def owners_of(*nodes, **cluster):
    counted = cluster.pop("counted", ())
    found = find_owners(Cluster(nodes, **{"trusted_namespaces": {"kube-system"}, **cluster}), counted=counted)
    return found["a"]


OPERATOR = daemon_set("gpu-operator", {"app": "nvidia-device-plugin-daemonset"}, selector=DEPLOY)
STATIC = {"name": "nvidia-device-plugin-ds"}


def test_node_without_traces_has_no_owner():
    assert owners_of(node(labels={"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"})) == ()


def test_resources_of_accelkit_agent_have_no_owner():
    ours = {"accelkit.io/memory": "16", "accelkit.io/cards": "1", "enflame.com/gcu": "2", "nvidia.com/gpu": "8"}
    # What our agents serve of other systems' resources, their node says.
    shared = {"accelkit.io/advertised": "accelkit.io/memory,nvidia.com/gpu"}
    [left] = owners_of(node(labels={"accelkit.io/share": "true"}, annotations=shared, allocatable=ours))
    assert left.vendor == "enflame"


def test_operator_labels_count_if_operator_daemon_set_exists():
    [found] = owners_of(node(labels=DEPLOY), daemon_sets=[OPERATOR])
    assert (found.name, found.vendor, found.holds) == ("nvidia-gpu-operator", "nvidia", HeldPart.CARDS)
    assert found.state is OwnerState.OWNER
    assert found.gives == ()
    assert "label nvidia.com/gpu.deploy.device-plugin=true" in found.evidence
    assert "nvidia.com/gpu.deploy.device-plugin=false" in found.release


def test_operator_labels_without_daemon_set_are_left_over():
    [found] = owners_of(node(labels=DEPLOY, allocatable={"nvidia.com/gpu": "0"}))
    assert found.state is OwnerState.LEFT_OVER
    assert "nvidia.com/gpu: 0" in found.evidence


def test_labels_are_not_left_over_if_daemon_sets_are_unreadable():
    [found] = owners_of(node(labels=DEPLOY), daemon_sets=None)
    assert found.state is OwnerState.OWNER


def test_disabled_operand_does_not_hold_cards():
    labels = {"nvidia.com/gpu.deploy.device-plugin": "false", "nvidia.com/gpu.deploy.driver": "true"}
    [found] = owners_of(node(labels=labels), daemon_sets=[OPERATOR])
    assert found.holds is HeldPart.DRIVER
    assert owners_of(node(labels={"nvidia.com/gpu.deploy.device-plugin": "false"}), daemon_sets=[OPERATOR]) == ()


def test_allocatable_resource_is_attributed_to_its_operator():
    [found] = owners_of(node(labels=DEPLOY, allocatable={"nvidia.com/gpu": "8"}))
    assert (found.name, found.gives) == ("nvidia-gpu-operator", ("nvidia.com/gpu: 8",))
    assert found.state is OwnerState.OWNER


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [
        ("nvidia.com/gpu.shared", "nvidia"),
        ("nvidia.com/mig-1g.10gb", "nvidia"),
        ("amd.com/gpu", "amd"),
        ("enflame.com/gcu", "enflame"),
        ("habana.ai/gaudi", "gaudi"),
    ],
)
def test_resource_without_other_traces_is_attributed_to_its_vendor(resource, vendor):
    [found] = owners_of(node(allocatable={resource: "2"}))
    assert (found.vendor, found.gives, found.holds) == (vendor, (f"{resource}: 2",), HeldPart.CARDS)


def test_zero_capacity_is_left_over_but_unhealthy_cards_are_not():
    [gone] = owners_of(node(allocatable={"nvidia.com/gpu": "0"}))
    assert (gone.state, gone.gives) == (OwnerState.LEFT_OVER, ())
    [unwell] = owners_of(node(allocatable={"nvidia.com/gpu": "0"}, capacity={"nvidia.com/gpu": "8"}))
    assert (unwell.state, unwell.gives) == (OwnerState.OWNER, ("nvidia.com/gpu: 0 of 8",))


def test_owner_of_one_vendor_does_not_affect_cards_of_another_vendor():
    found = owners_of(node(labels=DEPLOY, allocatable={"amd.com/gpu": "0", "nvidia.com/gpu": "1"}))
    assert [(each.vendor, each.state) for each in found] == [
        ("nvidia", OwnerState.OWNER),
        ("amd", OwnerState.LEFT_OVER),
    ]


def test_kmm_modules_are_attributed_by_name():
    kmm = "kmm.node.kubernetes.io"
    [amd] = owners_of(node(labels={f"{kmm}/kube-amd-gpu.amdgpu.ready": "", f"{kmm}/x.e1000.ready": ""}))
    assert (amd.name, amd.vendor, amd.holds) == ("kmm", "amd", HeldPart.DRIVER)
    # Nobody knows whose devices the plugin of a module of another name gives.
    [unknown] = owners_of(node(labels={f"{kmm}/x.my-module.device-plugin-ready": ""}))
    assert (unknown.vendor, unknown.holds) == ("", HeldPart.CARDS)


def test_hami_is_detected_by_its_annotations_until_marked_deleted():
    there = {"hami.io/node-handshake": "Requesting_2026.01.01 00:00:00", "hami.io/node-nvidia-register": "[]"}
    plugin = daemon_set("hami", {"app.kubernetes.io/component": "hami-device-plugin"})
    [found] = owners_of(node(annotations=there, allocatable={"nvidia.com/gpu": "80"}), daemon_sets=[plugin])
    assert (found.name, found.vendor, found.gives) == ("hami", "nvidia", ("nvidia.com/gpu: 80",))
    gone = {"hami.io/node-handshake": "Deleted_2026.01.01 00:00:00"}
    assert owners_of(node(annotations=gone), daemon_sets=[plugin]) == ()


def test_dra_devices_count_as_cards_of_their_node():
    pool = [{"name": "gpu-0"}, {"name": "gpu-1"}]
    slices = [
        devices("gpu.nvidia.com", nodeName="a", devices=pool),
        devices("gpu.amd.com", perDeviceNodeSelection=True, devices=[{"name": "x", "nodeName": "b"}]),
        devices("gpu.intel.com", allNodes=True, devices=pool),
        devices("compute-domain.nvidia.com", nodeName="a", devices=pool),
        devices("gpu.accelkit.io", nodeName="a", devices=pool),
        devices("gpu.nvidia.com", nodeName="a", devices=[]),
    ]
    found = find_owners(Cluster([node(), node("b"), node("c")], slices=slices))
    assert [(each.name, each.gives) for each in found["a"]] == [("nvidia-dra-driver", ("2 devices of gpu.nvidia.com",))]
    assert [each.name for each in found["b"]] == ["amd-dra-driver"]
    assert found["c"] == ()


def test_daemon_set_in_system_namespace_is_sufficient_evidence():
    static = daemon_set("kube-system", STATIC, name="nvidia-device-plugin-daemonset", selector={"gpu": "yes"})
    [found] = owners_of(node(labels={"gpu": "yes"}), daemon_sets=[static])
    assert (found.name, found.state) == ("nvidia-device-plugin", OwnerState.OWNER)
    assert found.evidence == ("DaemonSet kube-system/nvidia-device-plugin-daemonset",)
    assert owners_of(node(), daemon_sets=[static]) == ()


def test_daemon_set_in_tenant_namespace_is_not_accepted():
    forged = daemon_set("team-a", STATIC)
    assert owners_of(node(), daemon_sets=[forged]) == ()


def test_marks_kept_by_tenant_do_not_block_shared_nodes():
    [kept] = owners_of(node(labels=DEPLOY), daemon_sets=[OPERATOR])
    [told] = owners_of(node(labels=DEPLOY), daemon_sets=[OPERATOR], trusted_namespaces={"gpu-operator"})
    [unread] = owners_of(node(labels=DEPLOY), daemon_sets=None)
    assert (kept.state, kept.sure, told.sure, unread.sure) == (OwnerState.OWNER, False, True, True)
    for owner, shared, fate in (
        (kept, {"a"}, Fate.ADOPTED),
        (kept, set(), Fate.LEFT_ALONE),
        (told, {"a"}, Fate.CONTESTED),
    ):
        assert judge_nodes({"a": [owner]}, shared=shared, adopt=False)["a"].fate is fate
    [giving] = owners_of(node(labels=DEPLOY, allocatable={"nvidia.com/gpu": "8"}), daemon_sets=[OPERATOR])
    assert giving.sure


def test_trusted_namespaces_are_labelled_privileged():
    def namespace(name, **labels):
        return msgspec.convert({"metadata": {"name": name, "labels": labels}}, PartialObject)

    level = "pod-security.kubernetes.io/enforce"
    named = [namespace("ops", **{level: "privileged"}), namespace("team", **{level: "baseline"}), namespace("x")]
    assert list_trusted_namespaces(named) == {"kube-system", "ops"}


def test_cordoned_node_keeps_its_owner():
    cordoned = msgspec.convert(
        {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}, Node
    )
    assert len(owners_of(cordoned, daemon_sets=[daemon_set("kube-system", STATIC)])) == 1


def test_plugin_with_resources_counted_by_extender_is_not_an_owner():
    intel = daemon_set("kube-system", {"app": "intel-gpu-plugin"})
    given = node(allocatable={"gpu.intel.com/i915": "4"})
    assert [each.name for each in owners_of(given, daemon_sets=[intel])] == ["intel-device-plugin"]
    assert owners_of(given, daemon_sets=[intel], counted=["gpu.intel.com/i915", "gpu.intel.com/xe"]) == ()


def test_evidence_is_truncated():
    labels = {f"kmm.node.kubernetes.io/ns.amd{each}.ready": "v" * 60 for each in range(50)}
    [found] = owners_of(node(labels=labels))
    assert len(found.evidence) == 5
    assert found.evidence[-1] == "46 more"
