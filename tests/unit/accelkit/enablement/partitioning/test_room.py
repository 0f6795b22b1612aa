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


def test_where_all_nodes_are_tainted_only_who_bears_it_has_one():
    nodes = [node("a"), node("b")]
    assert judge(nodes)
    assert judge(nodes, CONTROL_PLANE)
    assert not judge(nodes, {"key": MEMORY, "operator": "Exists", "effect": "NoSchedule"})
    assert not judge(nodes, {"operator": "Exists"})
    assert not judge(nodes, tainted=("a",))
    assert not judge(nodes, tainted=())


def test_a_node_of_the_control_plane_is_left_to_who_bears_its_taint():
    nodes = [node("a"), node("c", taint("node-role.kubernetes.io/control-plane"))]
    assert judge(nodes)
    assert not judge(nodes, CONTROL_PLANE)


def test_what_the_nodes_have_of_us_already_is_as_if_it_were_yet_to_come():
    assert judge([node("a", OURS), node("b", OURS)])
    assert not judge([node("a", OURS), node("b", OURS)], tainted=("a",))


@pytest.mark.parametrize("spec", [{"nodeSelector": {"disk": "ssd"}}, {"nodeSelector": {"disk": "none"}}])
def test_only_nodes_that_are_selected_count_and_who_had_none_before_is_not_told(spec):
    nodes = [node("a", disk="ssd"), node("c")]
    assert judge(nodes, **spec) is (spec["nodeSelector"]["disk"] == "ssd")


def test_what_passes_keeps_nobody_out():
    assert not judge([node("a"), node("c", taint("node.kubernetes.io/unschedulable"))])
    assert judge([node("a"), node("c", taint("theirs", effect="NoExecute"))])


def test_rules_that_cannot_be_read_are_told_with_their_setting():
    with pytest.raises(
        ConfigurationError, match=r"cannot read the constraints of the extender.*correct extender_toler"
    ):
        pods({"key": 3})


async def test_no_node_is_tainted_where_one_is_left_to_nobody(api):
    api.store(NODES, {"metadata": {"name": "a", "labels": {"accelkit.io/share": "true"}, "resourceVersion": "1"}})
    told = r"NoNodeLeft: taints with the keys accelkit.io/memory on a leave no node for the extender.*; list"
    with pytest.raises(ConfigurationError, match=told):
        await apply_partition(api, Partition(taints=(MEMORY,), own_pods=pods(CONTROL_PLANE)))
    assert api.writes == []
    assert (await apply_partition(api, Partition(taints=(), own_pods=pods(CONTROL_PLANE)))).tainted == ()
