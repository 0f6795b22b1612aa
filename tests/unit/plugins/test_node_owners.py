import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import node_owners

from accelkit.enablement.ownership.fate import Fate, OwnerDecision
from accelkit.enablement.ownership.survey import OwnerSurvey

FREE = OwnerDecision(Fate.FREE)
OWNED = OwnerDecision(Fate.LEFT_ALONE, "NodeOwned", "it holds them", "leave it")
TAKEN = OwnerDecision(Fate.ADOPTED, "NodeAdopted", "it loads the driver", "nothing")
TWO = OwnerDecision(Fate.CONTESTED, "TwoOwners", "it holds them", "let one go", ("nvidia.com/gpu: 8",))


@pytest.fixture
def cluster(stub):
    """Let the look at the cluster show this; return what was asked."""
    return lambda notes=(), **judgements: stub(node_owners, "survey_owners", OwnerSurvey({}, judgements, tuple(notes)))


def test_nodes_with_another_owner_are_skipped_with_warning(run_module, cluster, warnings):
    cluster(a=FREE, b=OWNED, c=TAKEN)
    answer = run_module(node_owners, {})
    assert answer["left_alone"] == ["b"]
    assert answer["changed"] is False
    assert {name: each["fate"] for name, each in answer["judgements"].items()} == {"b": "left-alone", "c": "adopted"}
    assert warnings == ["node b is left alone (NodeOwned): it holds them; leave it"]


def test_two_device_plugins_for_same_cards_are_rejected(run_module, cluster):
    cluster(a=TWO)
    answer = run_module(node_owners, {})
    assert answer["failed"]
    assert answer["msg"] == (
        "another device plugin offers the same cards (a: nvidia.com/gpu: 8), so one card could be allocated twice "
        "(TwoOwners: it holds them); let one go"
    )


def test_named_node_with_another_owner_is_rejected(run_module, cluster):
    cluster(a=OWNED)
    assert (
        "nodes to share have another owner (NodeOwned: a: it holds them)"
        in run_module(node_owners, {"nodes": ["a"]})["msg"]
    )


def test_only_resources_counted_by_extender_may_have_another_owner(run_module, cluster):
    asked = cluster()
    run_module(node_owners, {"dialect": "kubegpu", "dialects": ["gas", "kubegpu"], "adopt": True, "coexisting": ["x"]})
    [(_arguments, given)] = asked
    assert given == {
        "nodes": [],
        "adopt": True,
        "coexisting": ["x"],
        "counted": {"gpu.intel.com/i915", "gpu.intel.com/xe"},
    }


def test_unreadable_owners_are_reported_as_warning(run_module, cluster, warnings):
    cluster(notes=["OwnersUnknown: no"])
    assert run_module(node_owners, {})["notes"] == warnings == ["OwnersUnknown: no"]
