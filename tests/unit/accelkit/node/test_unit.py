from __future__ import annotations

import pytest

from accelkit.model.assignment import Assignment, Share
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.unit import unit_to_advertise

GIB, MIB = 2**30, 2**20


def pod(name, unit, *, admitted=True, units=4, whole=False):
    assignment = Assignment({"c": (Share("a", units * unit, whole=whole),)})
    asked = {} if whole else {"c": units}
    return AssignedPod(f"uid-{name}", "d", name, ("", name), ("c",), assignment, units=asked, admitted=admitted)


def choose(told, present, *pods, holders=None):
    return unit_to_advertise(told, present, pods, [("d", pod.name) for pod in pods] if holders is None else holders)


@pytest.mark.parametrize(("told", "present"), [(MIB, GIB), (GIB, MIB), (GIB, None)])
def test_a_node_without_pods_takes_any_unit_over(told, present):
    assert choose(told, present) == told


def test_a_finer_unit_applies_at_once():
    assert choose(MIB, GIB, pod("p", GIB)) == MIB


def test_a_finer_unit_waits_for_a_pod_between_binding_and_admission():
    assert choose(MIB, GIB, pod("p", GIB, admitted=False), holders=[]) == GIB


def test_a_coarser_unit_waits_for_the_pods_of_the_finer():
    assert choose(GIB, MIB, pod("p", MIB)) == MIB
    assert choose(GIB, MIB, pod("old", GIB)) == GIB


def test_a_node_whose_unit_nobody_remembers_goes_by_its_pods():
    assert choose(GIB, None, pod("p", MIB), pod("q", GIB)) == MIB


def test_whole_cards_hold_no_unit_up():
    assert choose(GIB, MIB, pod("p", 7, whole=True), holders=[]) == GIB


@pytest.mark.parametrize(("told", "present"), [(MIB, GIB), (GIB, MIB)])
def test_devices_of_an_unknown_amount_keep_the_unit(told, present):
    assert choose(told, present, holders=[("d", "stray")]) == present
    assert unit_to_advertise(told, present, [], None) == present
