import pytest

from accelkit.enablement.partitioning.applying import Partition, apply_partition
from accelkit.enablement.partitioning.changes import TaintedNode
from accelkit.enablement.partitioning.room import find_stranded, read_own_pods
from accelkit.errors import ConfigurationError
from accelkit.kube.paths import NODES
from accelkit.model.object_meta import ObjectMeta

MEMORY = "accelkit.io/memory"
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
OURS = {"key": MEMORY, "value": "accelkit", "effect": "NoSchedule"}


def node(name, *taints, **labels):
    found = TaintedNode(metadata=ObjectMeta(name=name, labels=labels))
    found.spec.taints = [*taints]
    return found


def taint(key, value="", effect="NoSchedule"):
    return {"key": key, "value": value, "effect": effect}


def pods(*tolerations, **spec):
    given = {"tolerations": [*tolerations], **spec}
    return read_own_pods([{"name": "the extender", "setting": "extender_tolerations", "spec": given}])


def judge(nodes, *tolerations, tainted=("a", "b"), **spec):
    """Whether the pods find no node because of our taint."""
    return bool(find_stranded(pods(*tolerations, **spec), nodes, keys=[MEMORY], tainted=tainted))


def test_pods_without_toleration_have_no_node_if_all_nodes_are_tainted():
    nodes = [node("a"), node("b")]
    assert judge(nodes)
    assert judge(nodes, CONTROL_PLANE)
    assert not judge(nodes, {"key": MEMORY, "operator": "Exists", "effect": "NoSchedule"})
    assert not judge(nodes, {"operator": "Exists"})
    assert not judge(nodes, tainted=("a",))
    assert not judge(nodes, tainted=())


def test_control_plane_node_is_available_only_to_pods_that_tolerate_its_taint():
    nodes = [node("a"), node("c", taint("node-role.kubernetes.io/control-plane"))]
    assert judge(nodes)
    assert not judge(nodes, CONTROL_PLANE)


def test_existing_owned_taints_count_like_planned_taints():
    assert judge([node("a", OURS), node("b", OURS)])
    assert not judge([node("a", OURS), node("b", OURS)], tainted=("a",))


@pytest.mark.parametrize("spec", [{"nodeSelector": {"disk": "ssd"}}, {"nodeSelector": {"disk": "none"}}])
def test_only_selected_nodes_count_and_unmatched_selector_is_not_reported(spec):
    nodes = [node("a", disk="ssd"), node("c")]
    assert judge(nodes, **spec) is (spec["nodeSelector"]["disk"] == "ssd")


def test_unschedulable_taint_does_not_make_node_unavailable():
    assert not judge([node("a"), node("c", taint("node.kubernetes.io/unschedulable"))])
    assert judge([node("a"), node("c", taint("theirs", effect="NoExecute"))])


def test_invalid_toleration_is_reported_with_its_setting():
    with pytest.raises(
        ConfigurationError, match=r"cannot read the constraints of the extender.*correct extender_toler"
    ):
        pods({"key": 3})


async def test_nodes_are_not_tainted_if_extender_would_have_no_node(api):
    api.store(NODES, {"metadata": {"name": "a", "labels": {"accelkit.io/share": "true"}, "resourceVersion": "1"}})
    told = r"NoNodeLeft: taints with the keys accelkit.io/memory on a leave no node for the extender.*; list"
    with pytest.raises(ConfigurationError, match=told):
        await apply_partition(api, Partition(taints=(MEMORY,), own_pods=pods(CONTROL_PLANE)))
    assert api.writes == []
    assert (await apply_partition(api, Partition(taints=(), own_pods=pods(CONTROL_PLANE)))).tainted == ()
