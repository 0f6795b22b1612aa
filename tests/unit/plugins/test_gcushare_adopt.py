from __future__ import annotations

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import gcushare_adopt

from accelkit.errors import ConfigurationError
from accelkit.install.adoption import Adoption

NOTHING = Adoption((), ())


@pytest.fixture
def adopts(monkeypatch, kubeconfig):
    """Have this taken over; returns whether each call was a check."""
    checks = []

    def make(found):
        async def adopt(_api, *, check):
            checks.append(check)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(gcushare_adopt, "adopt_gcushare", adopt)
        return checks

    return make


@pytest.mark.parametrize("check", [False, True])
def test_what_is_taken_over_is_told_and_is_a_change(run_module, adopts, check):
    checks = adopts(Adoption(["kube-system/gcushare"], ["a", "b"], "0.1GiB"))
    answer = run_module(gcushare_adopt, {}, check=check)
    assert checks == [check]
    assert answer["changed"]
    assert (answer["releases"], answer["nodes"]) == (["kube-system/gcushare"], ["a", "b"])
    assert answer["former_unit"] == "0.1GiB"
    assert answer["diff"] == {
        "before": {"releases": ["kube-system/gcushare"], "nodes": ["a", "b"]},
        "after": {"releases": [], "nodes": []},
    }


@pytest.mark.parametrize("found", [Adoption(["d/gcushare"], ()), Adoption((), ["a"])])
def test_releases_or_nodes_alone_are_a_change(run_module, adopts, found):
    adopts(found)
    assert run_module(gcushare_adopt, {})["changed"]


def test_where_nothing_is_left_nothing_changes(run_module, adopts):
    adopts(NOTHING)
    assert run_module(gcushare_adopt, {})["changed"] is False


def test_a_release_that_cannot_be_read_is_told_in_its_sentence(run_module, adopts):
    adopts(ConfigurationError("no release", next_step="look at it"))
    answer = run_module(gcushare_adopt, {})
    assert (answer["failed"], answer["msg"]) == (True, "no release; look at it")
