from __future__ import annotations

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import remediation_undo

from accelkit.errors import ApiError


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("nodes", [[], ["a", "b"]])
def test_it_names_the_nodes_and_writes_nothing_in_check_mode(run_module, monkeypatch, kubeconfig, check, nodes):
    made = []

    async def undo_all(_api, *, dry_run):
        made.append(dry_run)
        return nodes

    monkeypatch.setattr(remediation_undo, "undo_all", undo_all)
    answer = run_module(remediation_undo, {}, check=check)
    assert (answer["changed"], answer["nodes"], made) == (bool(nodes), nodes, [check])


def test_an_error_is_its_sentence(run_module, monkeypatch, kubeconfig):
    async def undo_all(_api, *, dry_run):
        raise ApiError("the record cannot be read", next_step="take it off by hand")

    monkeypatch.setattr(remediation_undo, "undo_all", undo_all)
    assert run_module(remediation_undo, {})["msg"] == "the record cannot be read; take it off by hand"
