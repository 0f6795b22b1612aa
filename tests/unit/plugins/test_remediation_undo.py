import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import remediation_undo


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("nodes", [[], ["a", "b"]])
def test_it_names_the_nodes_and_writes_nothing_in_check_mode(run_module, stub, check, nodes):
    asked = stub(remediation_undo, "undo_all", nodes)
    answer = run_module(remediation_undo, {}, check=check)
    assert (answer["changed"], answer["nodes"]) == (bool(nodes), nodes)
    assert asked == [((), {"dry_run": check})]
