import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import managed_resources

from accelkit.install.managed_resources import Management


@pytest.fixture
def calls(stub):
    """What the module asked for; not all were configured."""
    former = {"former": ["c"], "former_dialects": ["d"], "problem": "not all were configured"}
    found = Management(changed=True, recorded=None, resources=("a",), **former)
    return stub(managed_resources, "record_managed", found)


def test_record_is_written_with_given_resources_and_schedulers(run_module, calls):
    answer = run_module(managed_resources, {"namespace": "n", "resources": ["a"], "schedulers": ["cp"]})
    told = {"namespace": "n", "resources": ["a"], "schedulers": ["cp"], "complete": True, "check": False}
    assert calls == [((), told)]
    assert answer["changed"]
    assert (answer["former"], answer["former_dialects"], answer["resources"]) == (["c"], ["d"], ["a"])
    assert answer["diff"] == {"before": {"resources": None}, "after": {"resources": ["a"]}}


def test_schedulers_are_not_compared_when_omitted(run_module, calls):
    run_module(managed_resources, {})
    [(_arguments, given)] = calls
    assert given["schedulers"] is None
    assert given["resources"] == ["accelkit.io/memory", "accelkit.io/cards"]


@pytest.mark.usefixtures("calls")
def test_resource_missing_in_record_is_a_warning(run_module, warnings):
    run_module(managed_resources, {"resources": ["a"], "complete": False})
    assert warnings == []
    run_module(managed_resources, {"resources": ["a", "b"], "complete": False})
    assert warnings == ["b not added to the record of managed resources: not all were configured"]


def test_absent_state_deletes_record(run_module, stub):
    asked = stub(managed_resources, "delete_record", Management(changed=True, recorded=None, resources=()))
    assert run_module(managed_resources, {"state": "absent", "namespace": "n"}, check=True)["changed"]
    assert asked == [((), {"namespace": "n", "check": True})]
