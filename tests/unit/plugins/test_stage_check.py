import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import stage_check

from accelkit.enablement.work.node_stages import StageRun
from accelkit.enablement.work.pods import CheckPods
from accelkit.model.stage import Outcome, Stage, StageResult

PASSED = {Stage.PLUGIN_CHECK: StageResult(Outcome.PASS, evidence="1 GiB of sim-0", seconds=1.0)}
FAILED = {Stage.PLUGIN_CHECK: StageResult(Outcome.FAIL, "NotAdvertised", "nothing is offered", "see why")}
UNKNOWN = {Stage.EXTENDER_CHECK: StageResult(Outcome.UNKNOWN, "NoFreeShare", "it is full", "wait")}


@pytest.fixture
def runs(stub):
    """A cluster whose nodes are found so; returns what was asked: for results, and for their removal."""
    return lambda run: (stub(stage_check, "run_stages", run), stub(stage_check, "remove_stages", run))


def test_stage_results_are_returned_with_warnings_for_failures(run_module, runs, warnings):
    found = {"a": PASSED, "b": FAILED, "c": UNKNOWN}
    asked, _stages = runs(StageRun(found, worked=("a", "b"), written=("b",), problems={"a": "of a newer version"}))
    answer = run_module(stage_check, {"image": "i", "nodes": ["a", "b", "c"], "image_pull_secrets": ["s"]})
    assert answer["changed"] is True
    assert (answer["nodes"], answer["checked"]) == (["a", "b", "c"], ["a", "b"])
    assert answer["stages"]["a"]["plugin-check"]["evidence"] == "1 GiB of sim-0"
    assert answer["faults"] == ["b plugin-check: NotAdvertised: nothing is offered; see why"]
    assert answer["doubtful"] == ["c extender-check: NoFreeShare: it is full; wait"]
    assert warnings == [f"node {answer['faults'][0]}", "the results of node a are not recorded: of a newer version"]
    [((names, pods), given)] = asked
    assert (names, pods) == (["a", "b", "c"], CheckPods("accelkit", "i", ("s",), seconds=120))
    assert given.items() >= {"max_age_seconds": 3600, "at_once": 32, "check": False}.items()


def test_warn_false_suppresses_warnings(run_module, runs, warnings):
    runs(StageRun({"b": FAILED}, worked=("b",), written=("b",)))
    answer = run_module(stage_check, {"image": "i", "warn": False})
    assert (len(answer["faults"]), warnings) == (1, [])


def test_run_without_written_results_is_not_a_change(run_module, runs):
    runs(StageRun({"a": PASSED}, worked=("a",)))
    assert run_module(stage_check, {"image": "i"})["changed"] is False


def test_check_mode_returns_nodes_to_check_without_warnings(run_module, runs, warnings):
    asked, _stages = runs(StageRun({"a": FAILED}, worked=("a",), written=("a",)))
    given = {"image": "i", "scheduler": "second", "runtime_class": "nvidia", "timeout": 9, "max_age": 0, "at_once": 2}
    answer = run_module(stage_check, given, check=True)
    assert (answer["changed"], answer["checked"], warnings) == (True, ["a"], [])
    [((names, pods), given)] = asked
    assert (names, pods) == ([], CheckPods("accelkit", "i", (), "nvidia", "second", 9))
    assert given.items() >= {"max_age_seconds": 0, "at_once": 2, "check": True}.items()


@pytest.mark.parametrize(("written", "pods"), [((), 0), (("a",), 0), ((), 1)])
@pytest.mark.parametrize("check", [False, True])
def test_absent_state_returns_nodes_with_removed_results(run_module, runs, written, pods, check):
    changed = bool(written or pods)
    _stages, asked = runs(StageRun(written=written, pods=pods))
    answer = run_module(stage_check, {"state": "absent", "namespace": "x"}, check=check)
    assert (answer["changed"], answer["nodes"], asked) == (changed, list(written), [(("x",), {"check": check})])


def test_stage_check_requires_image(run_module, runs):
    runs(StageRun())
    assert "image" in run_module(stage_check, {})["msg"]


@pytest.mark.parametrize("wrong", [{"at_once": 0}, {"timeout": 0}, {"max_age": -1}])
def test_out_of_range_numbers_are_rejected(run_module, runs, wrong):
    asked = runs(StageRun())
    assert "at least" in run_module(stage_check, {"image": "i", **wrong})["msg"]
    assert asked == ([], [])
