"""What people read of simulations that a command does not easily bring about."""

import io

from rich.console import Console

from accelkit.inspection.explanation.explanation import Explanation
from accelkit.inspection.explanation.groups import group_nodes
from accelkit.inspection.explanation.pods import SchedulerWords
from accelkit.inspection.explanation.sentences import describe_smallest
from accelkit.inspection.explanation.table import build_explanation_table
from accelkit.inspection.simulation import CardRefusal, CardSimulation, ChangeView, NodeSimulation, Simulation
from accelkit.model.request import ContainerRequest, Kind

REQUEST = (ContainerRequest("c", Kind.APP, 1, 4 * 2**30),)


def change(kind="less_memory", order=(0, 0, 1, 0), *, taken=("a",), proven=True, sentence=""):
    return ChangeView(kind, sentence or f"{kind} {order[2]}", "c", "", 0, 0, (), (), taken, order, proven)


def refused(name, *changes, sentence="full", searched=True, cards=()):
    return NodeSimulation(
        name, fits=False, sentence=sentence, cards=tuple(cards), changes=tuple(changes), searched=searched
    )


def simulation(*nodes, request=REQUEST, **more):
    return Simulation(request=request, policy="binpack", unit_bytes=2**30, nodes=nodes, **more)


def draw(found, *, every=False):
    explanation = Explanation("d", "p", "u", "pending", "Answer.", scheduler=SchedulerWords("s"), simulation=found)
    console = Console(file=io.StringIO(), highlight=False, soft_wrap=True)
    console.print(build_explanation_table(explanation, every=every))
    return console.file.getvalue().splitlines()


def test_nodes_are_grouped_by_reason_and_change_with_smallest_change_first():
    nodes = [
        refused("a"),
        refused("b", change("pods_ended", (0, 5, 1, 8))),
        refused("c", change(order=(0, 0, 3, 0))),
        refused("d", change(order=(0, 0, 2, 0)), change("pods_ended", (0, 5, 1, 1))),
        refused("e", change(order=(0, 0, 1, 0)), sentence="other"),
        refused("f", searched=False),
        NodeSimulation("g", fits=True),
        refused("h"),
    ]
    groups = [[node.name for node in group.nodes] for group in group_nodes(nodes)]
    assert groups == [["e"], ["d", "c"], ["b"], ["a", "h"], ["f"]]


def test_thousands_of_equal_nodes_take_few_lines():
    nodes = [refused(f"n{number}", change(order=(0, 0, number, 0))) for number in range(1, 5001)]
    shown = draw(simulation(*nodes, spent=True))
    assert "5,000 nodes: full (n1, n2, n3, n4, n5, n6 and 4,994 more)" in shown
    assert "  smallest change: less_memory 1: the pod would get card a of n1" in shown
    assert len(shown) < 12
    assert shown[-1].startswith("The search for changes stopped at its limit. It began with the nodes")
    assert len(draw(simulation(*nodes), every=True)) > 10_000


def test_incomplete_searches_are_reported():
    shown = draw(simulation(refused("a", change(proven=False)), refused("b"), refused("c", searched=False)))
    assert "  (the search was incomplete: smaller changes may exist)" in shown
    assert "  no single change makes the pod fit" in shown
    assert "  the search for changes was incomplete" in shown


def test_card_refusals_name_containers_if_several_are_refused():
    one, other = CardRefusal("p", "r", "too small"), CardRefusal("q", "r", "too old")
    cards = [CardSimulation("x", "m", 1, 1, each) for each in ((one,), (one, other), ())]
    assert draw(simulation(refused("a", cards=cards)))[-3:] == [
        "    x  too small",
        "    x  p: too small; q: too old",
        "    x  sufficient for each container alone",
    ]


def test_smallest_change_of_all_nodes_is_described_and_first_wins_ties():
    found = simulation(
        refused("a"), refused("b", change(order=(0, 0, 2, 0))), refused("c", change()), refused("d", change())
    )
    assert describe_smallest(found) == "less_memory 1: the pod would get card a of c"


def test_pod_group_is_printed_before_the_nodes():
    shown = draw(simulation(refused("a"), group="pod group d/g waits: 3 of 4 pods exist"))
    assert "It waits with its group: pod group d/g waits: 3 of 4 pods exist." in shown
    assert not any("group" in line for line in draw(simulation(refused("a"))))
