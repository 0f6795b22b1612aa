import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import gcushare_adopt

from accelkit.install.adoption import Adoption


@pytest.mark.parametrize("check", [False, True])
def test_adopted_releases_and_nodes_are_returned_as_change(run_module, stub, check):
    asked = stub(gcushare_adopt, "adopt_gcushare", Adoption(["kube-system/gcushare"], ["a", "b"], "0.1GiB"))
    answer = run_module(gcushare_adopt, {}, check=check)
    assert asked == [((), {"check": check})]
    assert answer["changed"]
    assert (answer["releases"], answer["nodes"]) == (["kube-system/gcushare"], ["a", "b"])
    assert answer["former_unit"] == "0.1GiB"
    assert answer["diff"] == {
        "before": {"releases": ["kube-system/gcushare"], "nodes": ["a", "b"]},
        "after": {"releases": [], "nodes": []},
    }


@pytest.mark.parametrize(
    ("releases", "nodes", "changed"),
    [(["d/gcushare"], (), True), ((), ["a"], True), ((), (), False)],
    ids=["releases", "nodes", "nothing"],
)
def test_adopted_releases_or_nodes_alone_are_a_change(run_module, stub, releases, nodes, changed):
    stub(gcushare_adopt, "adopt_gcushare", Adoption(releases, nodes))
    assert run_module(gcushare_adopt, {})["changed"] is changed
