from ansible_collections.accelkit.kubernetes.plugins.modules import node_share

from accelkit.install.shared_nodes import SharingResult
from accelkit.vendors.dialects import load_dialect

FOUND = SharingResult(changed=True, before={"a": {}}, after={"a": {"labels": {}}}, nodes=("a",))


def test_present_state_shares_nodes(run_module, stub):
    asked = stub(node_share, "share", FOUND)
    others = {"dialects": ["gas"], "coexisting": ["b"], "leave_out": ["c"]}
    answer = run_module(node_share, {"nodes": ["a"], "wait_seconds": 3, "unit": "0.1GB", **others})
    told = {"nodes": ["a"], "check": False, "exclusive": False, "wait_seconds": 3, "unit_bytes": 10**8}
    counted = ["gpu.intel.com/i915", "gpu.intel.com/xe"]
    told |= {"dialect": load_dialect("native"), "counted": counted, "coexisting": ["b"], "leave_out": ["c"]}
    assert asked == [((), told)]
    assert answer["changed"]
    assert answer["nodes"] == ["a"]
    assert answer["diff"] == {"before": {"a": {}}, "after": {"a": {"labels": {}}}}


def test_absent_state_stops_sharing_nodes(run_module, stub):
    asked = stub(node_share, "unshare", FOUND)
    times = {"grace_seconds": 5, "confirm_seconds": 2}
    run_module(node_share, {"state": "absent", "keep": ["b"], "dialect": "gcushare", **times}, check=True)
    told = {"nodes": [], "keep": ["b"], **times, "check": True, "dialect": load_dialect("gcushare")}
    assert asked == [((), told)]


def test_unusable_driver_library_is_a_warning_for_each_node(run_module, stub, warnings):
    problems = {"a": ("one is silent", "one is missing")}
    stub(node_share, "share", SharingResult(changed=False, nodes=("a", "b"), library_problems=problems))
    answer = run_module(node_share, {"wait_seconds": 3})
    assert warnings == ["node a: one is silent; one is missing"]
    assert answer["library_problems"] == {"a": ["one is silent", "one is missing"]}
    assert "failed" not in answer
