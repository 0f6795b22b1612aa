from ansible_collections.accelkit.kubernetes.plugins.modules import node_partition, toleration_check

from accelkit.enablement.partitioning.admission import Tolerance
from accelkit.enablement.partitioning.applying import Applied, Partition
from accelkit.enablement.partitioning.tolerations import Intolerant

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"


def test_present_state_applies_partition(run_module, stub):
    asked = stub(node_partition, "apply_partition", Applied({"a": ()}, {"a": ("label x=y",)}, ("a",)))
    given = {"taints": [MEMORY], "tainted": ["a"], "roles": {"training": ["a"]}, "pools": {"big": ["b"]}}
    answer = run_module(node_partition, given, check=True)
    assert asked == [((Partition((MEMORY,), ("a",), {"training": ["a"]}, {"big": ["b"]}),), {"check": True})]
    assert answer["changed"]
    assert answer["tainted"] == ["a"]
    assert answer["diff"] == {"before": {"a": []}, "after": {"a": ["label x=y"]}}


def test_own_pods_are_passed_to_partition(run_module, stub):
    asked = stub(node_partition, "apply_partition", Applied({}, {}))
    pods = {"name": "the extender", "setting": "extender_tolerations", "spec": {"nodeSelector": {"a": "b"}}}
    run_module(node_partition, {"taints": [MEMORY], "own_pods": [pods]})
    [([partition], _options)] = asked
    assert [(str(each), each.spec.node_selector) for each in partition.own_pods] == [
        ("the extender (extender_tolerations)", {"a": "b"})
    ]


def test_absent_state_removes_partition(run_module, stub):
    asked = stub(node_partition, "remove_partition", Applied({}, {}))
    assert run_module(node_partition, {"state": "absent"})["changed"] is False
    assert asked == [((), {"check": False})]


GIVEN = {"taints": [MEMORY], "tainted": ["a"], "resources": [MEMORY, CARDS]}
PODS = tuple(Intolerant("Pod", "n", f"p{each:02}", (MEMORY,)) for each in range(52))
FOUND = Tolerance({CARDS: (MEMORY,)}, {MEMORY: "quota"}, PODS)


def test_missing_tolerations_are_warnings_with_next_step(run_module, stub, warnings):
    asked = stub(toleration_check, "check_tolerations", FOUND)
    answer = run_module(toleration_check, GIVEN)
    given = {"keys": [MEMORY], "tainted": ["a"], "resources": [MEMORY, CARDS], "card_resources": [MEMORY, CARDS]}
    assert asked == [((), {**given, "namespace": "accelkit"})]
    assert len(answer["intolerant"]) == 50
    assert [each.partition(":")[0] for each in warnings] == ["SharesRepelled", "AdmissionUnknown", "TolerationMissing"]
    assert all("{key: accelkit.io/memory, operator: Exists, effect: NoSchedule}" in each for each in warnings)
    assert "and 2 more" in warnings[2]
    assert "failed" not in answer


def test_check_mode_creates_no_test_pods(run_module, stub):
    asked = stub(toleration_check, "check_tolerations", FOUND)
    run_module(toleration_check, GIVEN, check=True)
    [(_arguments, given)] = asked
    assert (given["resources"], given["card_resources"]) == ([], [MEMORY, CARDS])
