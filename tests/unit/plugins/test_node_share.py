from __future__ import annotations

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.accelkit.kubernetes.plugins.modules import node_share

from accelkit.errors import ServiceError
from accelkit.install.sharing import Sharing
from accelkit.vendors.dialects import load_dialect


@pytest.fixture
def calls(monkeypatch, kubeconfig):
    made = []

    def record(name):
        async def act(_api, **arguments):
            made.append((name, arguments))
            if arguments["nodes"] == ["bad"]:
                raise ServiceError("it stays", next_step="try again")
            return Sharing(changed=True, before={"a": {}}, after={"a": {"labels": {}}}, nodes=("a",))

        return act

    monkeypatch.setattr(node_share, "share", record("share"))
    monkeypatch.setattr(node_share, "unshare", record("unshare"))
    return made


def test_present_shares(run_module, calls):
    others = {"dialects": ["gas"], "coexisting": ["b"], "leave_out": ["c"]}
    answer = run_module(node_share, {"nodes": ["a"], "wait_seconds": 3, "unit": "0.1GB", **others})
    told = {"nodes": ["a"], "check": False, "exclusive": False, "wait_seconds": 3, "unit_bytes": 10**8}
    counted = ["gpu.intel.com/i915", "gpu.intel.com/xe"]
    told |= {"dialect": load_dialect("native"), "counted": counted, "coexisting": ["b"], "leave_out": ["c"]}
    assert calls == [("share", told)]
    assert answer["changed"]
    assert answer["nodes"] == ["a"]
    assert answer["diff"] == {"before": {"a": {}}, "after": {"a": {"labels": {}}}}


def test_absent_takes_everything_off(run_module, calls):
    times = {"grace_seconds": 5, "confirm_seconds": 2}
    run_module(node_share, {"state": "absent", "keep": ["b"], "dialect": "gcushare", **times}, check=True)
    told = {"nodes": [], "keep": ["b"], **times, "check": True, "dialect": load_dialect("gcushare")}
    assert calls == [("unshare", told)]


@pytest.mark.usefixtures("calls")
def test_an_error_is_its_sentence(run_module):
    assert run_module(node_share, {"nodes": ["bad"]})["msg"] == "it stays; try again"


def test_a_library_of_no_use_is_a_warning_for_each_node(run_module, monkeypatch, kubeconfig):
    told = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _module, text: told.append(text))

    async def share(_api, **_given):
        return Sharing(changed=False, nodes=("a", "b"), library_problems={"a": ("one is silent", "one is missing")})

    monkeypatch.setattr(node_share, "share", share)
    answer = run_module(node_share, {"wait_seconds": 3})
    assert told == ["node a: one is silent; one is missing"]
    assert answer["library_problems"] == {"a": ["one is silent", "one is missing"]}
    assert "failed" not in answer
