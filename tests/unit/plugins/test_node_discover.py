import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import node_discover

from accelkit.install.node_discovery import DiscoveryPod, DriverReach, Findings


@pytest.fixture
def cluster(stub):
    """A cluster where these nodes, labelled or not, are found so; returns what was asked: names, and for cards."""

    def make(labelled, findings):
        listed = stub(node_discover, "list_unexamined", labelled)
        return listed, stub(node_discover, "find_cards", findings)

    return make


def test_nodes_with_cards_and_problems_are_returned(run_module, cluster):
    nodes = {"a": False, "b": False, "c": False}
    listed, asked = cluster(nodes, Findings({"a": 2, "b": 0}, problems={"c": "its pod did not end in time"}))
    answer = run_module(node_discover, {"image": "i", "host_root": "/tree", "timeout": 7})
    assert (answer["nodes"], answer["looked_at"], answer["changed"]) == (["a"], ["a", "b", "c"], False)
    assert listed[0][0][0] == []
    assert asked == [((["a", "b", "c"], DiscoveryPod("accelkit", "i", (), host_root="/tree")), {"seconds": 7})]
    assert answer["problems"] == {"c": "its pod did not end in time"}


def test_named_nodes_are_examined_with_driver_settings_of_agents(run_module, cluster):
    listed, asked = cluster({"a": False}, Findings({"a": 2}))
    given = {"driver_root": "/run/nvidia/driver", "runtime_class": "nvidia", "cdi_devices": ["x/y=z"]}
    run_module(node_discover, {"image": "i", "nodes": ["a"], "privileged": True, **given})
    reach = DriverReach("/run/nvidia/driver", "nvidia", ("x/y=z",), privileged=True)
    assert listed[0][0][0] == ["a"]
    assert asked == [((["a"], DiscoveryPod("accelkit", "i", reach=reach)), {"seconds": 120})]


def test_missing_parts_are_warnings_only_on_labelled_nodes(run_module, cluster, warnings):
    lacking = {"a": ["a driver"], "b": ["another driver"]}
    cluster({"a": True, "b": False}, Findings({"a": 1, "b": 1}, lacking, {"b": ["library y: it is nowhere"]}))
    answer = run_module(node_discover, {"image": "i"})
    assert answer["missing"] == {"b": ["another driver"]}
    assert warnings == ["node a: a driver", "node b: library y: it is nowhere"]


def test_check_mode_starts_no_pod(run_module, cluster):
    asked = cluster({"a": False}, Findings({"a": 2}))
    assert run_module(node_discover, {"image": "i"}, check=True)["looked_at"] == []
    assert asked == ([], [])
