from __future__ import annotations

import pytest

from accelkit.model.observed_allocations import StrangeProcess
from accelkit.node.processes.scan import CardProcess
from accelkit.node.processes.usage import CONTEXT_BYTES, OverUse, find_over_use, find_strange_processes

GIB = 2**30
SERVICES = ["nvidia-persistenced", "nv-hostengine"]


def on_card(pid, memory, pod="p", card="a", command="python3"):
    return CardProcess(card, pid, command, pod, memory)


def check(processes, granted, **more):
    return find_over_use(processes, granted, tolerance_bytes=10, **more)


def test_what_the_processes_of_a_pod_hold_of_a_card_is_added_up():
    processes = [on_card(1, 60), on_card(2, 61), on_card(3, 500, card="b"), on_card(4, 500, pod="q")]
    granted = {("p", "a"): 100, ("p", "b"): 500, ("q", "a"): 500}
    assert check(processes, granted) == [OverUse("p", "a", 100, 121)]


@pytest.mark.parametrize(("used", "over"), [(100, False), (110, False), (111, True)])
def test_a_context_is_tolerated_and_no_byte_more(used, over):
    assert bool(check([on_card(1, used)], {("p", "a"): 100})) is over


def test_processes_that_hold_nothing_bring_no_tolerance():
    processes = [on_card(1, 111), on_card(2, 0), on_card(3, None)]
    assert check(processes, {("p", "a"): 100}) == [OverUse("p", "a", 100, 111, at_least=True)]


def test_unknown_memory_alone_proves_nothing():
    assert check([on_card(1, None)], {("p", "a"): 100}) == []


def test_a_pod_without_a_share_of_the_card_may_hold_nothing_of_it():
    assert check([on_card(1, 50, card="b")], {("p", "a"): 100}) == [OverUse("p", "b", 0, 50)]


def test_a_pod_whose_shares_cannot_be_read_is_not_judged():
    assert check([on_card(1, 50)], {}, unknown={"p"}) == []


def test_a_process_of_no_pod_uses_nobodys_share():
    assert check([on_card(1, 50, pod=None)], {}) == []


def test_over_use_is_told_in_a_fixed_order():
    processes = [on_card(1, 50, pod="q"), on_card(2, 50, card="b"), on_card(3, 50)]
    assert [(each.pod_uid, each.card) for each in check(processes, {})] == [("p", "a"), ("p", "b"), ("q", "a")]


@pytest.mark.parametrize(("beyond", "over"), [(512 * 2**20, False), (512 * 2**20 + 1, True)])
def test_a_program_that_keeps_to_its_share_may_have_a_cuda_context(beyond, over):
    assert bool(find_over_use([on_card(1, 4 * GIB + beyond)], {("p", "a"): 4 * GIB})) is over


def test_a_process_of_no_pod_of_the_node_is_strange():
    processes = [on_card(1, 5, pod=None), on_card(2, None, pod="gone"), on_card(3, 5)]
    assert find_strange_processes(processes, {"p"}, SERVICES) == [
        StrangeProcess("a", 1, "python3", 5),
        StrangeProcess("a", 2, "python3"),
    ]


def test_services_of_the_driver_are_expected():
    assert find_strange_processes([on_card(1, None, pod=None, command="nvidia-persiste")], (), SERVICES) == []


def test_the_name_of_a_service_excuses_no_more_than_a_context():
    processes = [on_card(1, CONTEXT_BYTES + 1, pod=None, command="nvidia-persiste")]
    assert find_strange_processes(processes, (), SERVICES) == [
        StrangeProcess("a", 1, "nvidia-persiste", CONTEXT_BYTES + 1)
    ]


def test_a_pod_cannot_pass_for_a_service():
    assert len(find_strange_processes([on_card(1, None, pod="gone", command="nvidia-persiste")], (), SERVICES)) == 1
