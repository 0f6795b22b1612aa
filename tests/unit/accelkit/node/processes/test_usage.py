import pytest

from accelkit.model.observed_allocations import StrangeProcess
from accelkit.node.processes.scan import CardProcess
from accelkit.node.processes.usage import CONTEXT_BYTES, OverUse, find_over_use, find_strange_processes

GIB = 2**30
SERVICES = ["nvidia-persistenced", "nv-hostengine"]


def on_card(pid, memory, pod="p", card="a", command="python3"):
    return CardProcess(card, pid, command, pod, memory)


@pytest.mark.parametrize(("used", "over"), [(100, False), (110, False), (111, True)])
def test_memory_beyond_share_is_accepted_up_to_tolerance(used, over):
    assert bool(find_over_use([on_card(1, used)], {("p", "a"): 100}, tolerance_bytes=10)) is over


@pytest.mark.parametrize(("beyond", "over"), [(512 * 2**20, False), (512 * 2**20 + 1, True)])
def test_default_tolerance_is_512_mib(beyond, over):
    assert bool(find_over_use([on_card(1, 4 * GIB + beyond)], {("p", "a"): 4 * GIB})) is over


CASES = {
    "processes of a pod are added up": (
        [on_card(1, 60), on_card(2, 61), on_card(3, 500, card="b"), on_card(4, 500, pod="q")],
        {("p", "a"): 100, ("p", "b"): 500, ("q", "a"): 500},
        [OverUse("p", "a", 100, 121)],
    ),
    "processes that hold nothing bring no tolerance": (
        [on_card(1, 111), on_card(2, 0), on_card(3, None)],
        {("p", "a"): 100},
        [OverUse("p", "a", 100, 111, at_least=True)],
    ),
    "unknown memory alone proves nothing": ([on_card(1, None)], {("p", "a"): 100}, []),
    "a card of which the pod has no share": ([on_card(1, 50, card="b")], {("p", "a"): 100}, [OverUse("p", "b", 0, 50)]),
    "a pod whose shares cannot be read": ([on_card(1, 50, pod="unknown")], {}, []),
    "a process of no pod": ([on_card(1, 50, pod=None)], {}, []),
    "a fixed order": (
        [on_card(1, 50, pod="q"), on_card(2, 50, card="b"), on_card(3, 50)],
        {},
        [OverUse("p", "a", 0, 50), OverUse("p", "b", 0, 50), OverUse("q", "a", 0, 50)],
    ),
}


@pytest.mark.parametrize(("processes", "granted", "over"), CASES.values(), ids=CASES)
def test_over_use_is_found_by_pod_and_card(processes, granted, over):
    assert find_over_use(processes, granted, tolerance_bytes=10, unknown={"unknown"}) == over


def test_process_without_pod_of_node_is_strange():
    processes = [on_card(1, 5, pod=None), on_card(2, None, pod="gone"), on_card(3, 5)]
    assert find_strange_processes(processes, {"p"}, SERVICES) == [
        StrangeProcess("a", 1, "python3", 5),
        StrangeProcess("a", 2, "python3"),
    ]


@pytest.mark.parametrize(
    ("memory", "pod", "strange"),
    [(None, None, False), (CONTEXT_BYTES, None, False), (CONTEXT_BYTES + 1, None, True), (None, "gone", True)],
)
def test_driver_service_is_strange_in_pod_or_above_context_memory(memory, pod, strange):
    processes = [on_card(1, memory, pod=pod, command="nvidia-persiste")]
    assert bool(find_strange_processes(processes, (), SERVICES)) is strange
