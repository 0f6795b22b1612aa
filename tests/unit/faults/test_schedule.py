"""The schedule of a storm follows from its seed alone, and has all that can be done in it."""

from faults.faulting import GATE_FAULTS, LINK_FAULTS, MEMBER_FAULTS
from faults.schedule import FAULTS, OPERATIONS, plan_round


def plan(seed, number=0, **options):
    return plan_round(seed, number, 20, 25, **options)


def test_different_seeds_and_rounds_have_different_plans():
    assert plan(7) != plan(8)
    assert plan(7, 0) != plan(7, 1)


def test_plan_without_faults_has_same_operations():
    calm = plan(7, fault_seconds=0)
    assert calm
    assert calm == [step for step in plan(7) if step.action in OPERATIONS]


def test_steps_are_sorted_and_within_round():
    steps = plan(7)
    assert steps == sorted(steps, key=lambda step: step.at)
    assert all(0 <= step.at < 20 for step in steps)


def test_plans_contain_each_operation_and_each_fault():
    drawn = {step.action for number in range(300) for step in plan(7, number, processes=3)}
    assert drawn == OPERATIONS.keys() | FAULTS.keys()


def test_excluded_faults_are_not_planned():
    drawn = {step.action for number in range(300) for step in plan(7, number, without={"kill", "stop"})}
    assert drawn == (OPERATIONS.keys() | FAULTS.keys()) - {"kill", "stop"}


def test_targets_with_several_processes_are_numbered():
    targets = {step.arguments["target"] for number in range(300) for step in plan(7, number) if step.action in FAULTS}
    assert {"agents-0", "agents-1", "kubelets-0", "kubelets-1", "leader", "etcd"} <= targets
    assert not targets & {"agents", "kubelets"}


def test_each_fault_has_an_implementation():
    special = {"compact", "jump_clock", "fill_disk", "remove_node", "change_unit", "change_policy", "change_dialect"}
    assert FAULTS.keys() == GATE_FAULTS.keys() | LINK_FAULTS.keys() | MEMBER_FAULTS.keys() | special
