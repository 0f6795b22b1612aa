import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import remediation_undo


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("nodes", [[], ["a", "b"]])
def test_restored_nodes_are_returned_and_check_mode_is_dry_run(run_module, stub, check, nodes):
    asked = stub(remediation_undo, "undo_all", nodes)
    answer = run_module(remediation_undo, {}, check=check)
    assert (answer["changed"], answer["nodes"]) == (bool(nodes), nodes)
    assert asked == [((), {"dry_run": check})]
