"""What a simulation may cost, and that nobody waits for it."""

import asyncio
from types import SimpleNamespace

import pytest
from support.simulated_cluster import GIB, make_pod

from accelkit.extender.simulation import event_loop_share as turns
from accelkit.extender.simulation import outcomes as outcomes_module
from accelkit.extender.simulation import simulator as module
from accelkit.ledger import ledger as ledger_module
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.placement.changes import probe as probe_module

PUZZLE = {f"c{memory}": {"accelkit.io/memory": memory} for memory in range(61, 79)}


@pytest.fixture
def wide(cluster):
    """120 nodes of eight cards, no two alike."""
    for node in range(120):
        cards = (Card(f"{node}.{card}", "v", "m", 80 * GIB + node * 8 + card, index=card) for card in range(8))
        cluster.ledger.put_node(f"n{node:03}", Inventory(GIB, tuple(cards)))
    return cluster


@pytest.fixture
def placed(monkeypatch):
    """Counts how often cards are looked for, and the steps that it took."""
    counted = SimpleNamespace(calls=0, most=0)
    place = probe_module.place

    def count(states, request, policy, budget=None, *links):
        before = budget.steps
        found = place(states, request, policy, budget, *links)
        counted.calls += 1
        counted.most = max(counted.most, before - budget.steps)
        return found

    for each in (probe_module, ledger_module):
        monkeypatch.setattr(each, "place", count)
    return counted


async def test_complex_request_stops_at_the_search_budget(wide, placed):
    simulation = await wide.ask(make_pod(60, containers=PUZZLE))
    assert simulation.spent
    assert not any(node.fits for node in simulation.nodes)
    assert any(not node.searched for node in simulation.nodes)
    assert not any(node.changes for node in simulation.nodes if not node.searched)
    # At most one search of a decision, and some milliseconds.
    assert placed.most < 1100


async def test_nodes_beyond_the_search_budget_are_too_complex(wide, monkeypatch):
    monkeypatch.setattr(module, "_MOST_STEPS", 2000)
    nodes = (await wide.ask(make_pod(60, containers=PUZZLE))).nodes
    assert {node.sentence for node in nodes} == {
        "insufficient accelkit.io/memory in one card",
        "the request has too many combinations to search",
    }
    assert not any(node.resolvable for node in nodes if node.reason == "TooComplex")


async def test_nodes_with_smallest_shortage_are_searched_first(wide, monkeypatch):
    monkeypatch.setattr(module, "_MOST_CHANGE_STEPS", 40)
    simulation = await wide.ask(make_pod(100))
    searched = [node.name for node in simulation.nodes if node.changes]
    assert searched == [f"n{number:03}" for number in range(120 - len(searched), 120)]
    assert 5 < len(searched) < 40
    assert [node.name for node in simulation.nodes if not node.searched] == [
        f"n{number:03}" for number in range(120 - len(searched))
    ]
    assert simulation.spent


async def test_search_steps_are_limited_per_node(wide, monkeypatch):
    monkeypatch.setattr(module, "_CHANGE_STEPS_PER_NODE", 6)
    simulation = await wide.ask(make_pod(100))
    assert all(node.changes for node in simulation.nodes)


async def test_simulation_yields_to_event_loop_between_searches(wide, placed, monkeypatch):
    monkeypatch.setattr(turns, "_TURN_SECONDS", 0)
    most, before = 0, 0

    async def watch():
        nonlocal most, before
        while True:
            most, before = max(most, placed.calls - before), placed.calls
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    await wide.ask(make_pod(100), without=("d/nobody",))
    watching.cancel()
    assert placed.calls > 240
    # A decision is two: on the node as it is, and as if it were empty.
    assert 1 <= most <= 2


async def test_event_loop_share_sleeps_for_twice_its_running_time(monkeypatch):
    clock, slept = SimpleNamespace(now=0.0), []

    async def sleep(seconds):
        slept.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(turns, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(turns, "asyncio", SimpleNamespace(sleep=sleep))
    turn = turns.EventLoopShare()
    for _ in range(4):
        clock.now += 0.0004
        await turn.rest()
    assert slept == [pytest.approx(0.0024)]
    clock.now += 0.0005
    await turn.rest()
    assert len(slept) == 1


async def test_node_that_changes_during_search_is_reported_as_before(cluster, monkeypatch):
    cluster.node("a", 10, 12)
    cluster.node("b", 10, 12)
    rest = turns.EventLoopShare.rest
    begun = asyncio.Event()

    async def change(self):
        if begun.is_set():
            begun.clear()
            cluster.ledger.release("uid-a-0")
            cluster.ledger.release("uid-b-0")
        await rest(self)

    begin = outcomes_module.NodeOutcome.begin
    monkeypatch.setattr(outcomes_module.NodeOutcome, "begin", lambda self, *of: (begin(self, *of), begun.set()))
    monkeypatch.setattr(turns.EventLoopShare, "rest", change)
    first, second = (await cluster.ask(make_pod(8))).nodes
    assert [change.kind for change in first.changes] == ["less_memory", "pods_ended"]
    assert first.changes[1].pods[0].name == "a-0"
    # Which of its pods is which is not known any more.
    assert [change.kind for change in second.changes] == ["less_memory"]


async def test_node_that_changed_before_search_is_not_searched(cluster, monkeypatch):
    cluster.node("n", 10, 12)
    search = module.Simulator._search

    async def change(self, *of):
        cluster.ledger.release("uid-n-0")
        return await search(self, *of)

    monkeypatch.setattr(module.Simulator, "_search", change)
    node = await cluster.look(make_pod(8), "n")
    assert (node.fits, node.changes, node.searched) == (False, (), False)


async def test_node_removed_during_simulation_is_reported_as_before(cluster, monkeypatch):
    cluster.node("n", 10, 12)
    score = module.Simulator._score

    async def change(self, *of):
        cluster.ledger.drop_node("n")
        return await score(self, *of)

    monkeypatch.setattr(module.Simulator, "_score", change)
    node = await cluster.look(make_pod(8), "n")
    assert [change.kind for change in node.changes] == ["less_memory", "pods_ended"]


async def test_pod_group_message_is_truncated(cluster):
    said = {"uid-p": "pod group d/g waits: 3 of 4 pods exist", "uid-q": "x" * 10_000}
    cluster.simulator = module.Simulator(cluster.ledger, cluster.feed, cluster.verbs, lambda uid: said.get(uid, ""))
    cluster.node("n")
    found = [(await cluster.ask(make_pod(4, uid=uid))).group for uid in ("uid-p", "uid-q", "")]
    assert (found[0], len(found[1]), found[2]) == (said["uid-p"], 500, "")
