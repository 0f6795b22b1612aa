from __future__ import annotations

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import managed_resources

from accelkit.install.managed_resources import Management


@pytest.fixture
def calls(monkeypatch, kubeconfig):
    made = []

    async def record(_api, **arguments):
        made.append(arguments)
        problem = "" if arguments["complete"] else "not all were configured"
        return Management(
            changed=True, recorded=None, resources=("a",), former=["c"], former_dialects=["d"], problem=problem
        )

    async def forget(_api, **arguments):
        made.append(arguments)
        return Management(changed=True, recorded=None, resources=())

    monkeypatch.setattr(managed_resources, "record_managed", record)
    monkeypatch.setattr(managed_resources, "forget_managed", forget)
    return made


def test_the_record_is_written_with_what_is_given(run_module, calls):
    answer = run_module(managed_resources, {"namespace": "n", "resources": ["a"], "schedulers": ["cp"]})
    told = {"namespace": "n", "resources": ["a"], "schedulers": ["cp"], "complete": True, "check": False}
    assert calls == [told]
    assert answer["changed"]
    assert (answer["former"], answer["former_dialects"], answer["resources"]) == (["c"], ["d"], ["a"])
    assert answer["diff"] == {"before": {"resources": None}, "after": {"resources": ["a"]}}


def test_without_names_the_schedulers_are_not_compared(run_module, calls):
    run_module(managed_resources, {})
    assert calls[0]["schedulers"] is None
    assert calls[0]["resources"] == ["accelkit.io/memory", "accelkit.io/cards"]


@pytest.mark.usefixtures("calls")
def test_a_resource_that_is_not_recorded_is_a_warning(run_module, warnings):
    run_module(managed_resources, {"resources": ["a", "b"], "complete": False})
    assert warnings == ["b not added to the record of managed resources: not all were configured"]


@pytest.mark.usefixtures("calls")
def test_a_record_that_lists_all_is_no_warning(run_module, warnings):
    run_module(managed_resources, {"resources": ["a"], "complete": False})
    assert warnings == []


def test_the_record_is_deleted(run_module, calls):
    assert run_module(managed_resources, {"state": "absent", "namespace": "n"}, check=True)["changed"]
    assert calls == [{"namespace": "n", "check": True}]
