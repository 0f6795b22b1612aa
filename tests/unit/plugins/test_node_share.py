from __future__ import annotations

import pytest
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
    answer = run_module(node_share, {"nodes": ["a"], "wait_seconds": 3, "unit": "0.1"})
    told = {"nodes": ["a"], "check": False, "exclusive": False, "wait_seconds": 3, "unit_bytes": 10**8}
    assert calls == [("share", {**told, "dialect": load_dialect("native")})]
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
