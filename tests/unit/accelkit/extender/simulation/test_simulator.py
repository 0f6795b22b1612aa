"""What a simulation says of a pod on each node, against what the verbs and bind then do."""

import asyncio
import copy

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.pods import make_ref
from support.requests import build_inventory, build_request
from support.simulated_cluster import GIB, SimulatedCluster, make_pod

from accelkit.errors import BadArgsError, InventoryError, NotReadyError
from accelkit.extender.simulation import simulator as module
from accelkit.extender.wire import Args
from accelkit.inspection.simulation import SimulationQuestion
from accelkit.ledger.holding import UnassignedPod
from accelkit.model.inventory import Inventory
from accelkit.model.pending_pod import PendingPod
from accelkit.model.pod import Pod
from accelkit.placement.policies import Policy

FULL = "insufficient accelkit.io/memory in one card"


async def test_node_without_room_lists_card_reasons_and_changes(cluster):
    cluster.node("n", 10, 12)
    node = await cluster.look(make_pod(8), "n")
    assert (node.fits, node.sentence, node.reason, node.resolvable) == (False, FULL, "InsufficientMemory", True)
    assert [(card.id, card.model, card.free_bytes, card.capacity_bytes) for card in node.cards] == [
        ("n.0", "m", 6 * GIB, 16 * GIB),
        ("n.1", "m", 4 * GIB, 16 * GIB),
    ]
    assert [refusal.sentence for card in node.cards for refusal in card.refusals] == [
        "6 GiB of 16 GiB free, 8 GiB requested",
        "4 GiB of 16 GiB free, 8 GiB requested",
    ]
    assert [(change.sentence, change.taken, change.proven) for change in node.changes] == [
        ("2 GiB less memory for container c (6 GiB instead of 8 GiB)", ("n.0",), True),
        ("if pod d/n-0 ended", ("n.0",), True),
    ]
    assert node.searched


async def test_simulation_changes_no_state_and_logs_nothing(cluster, caplog):
    caplog.set_level("DEBUG")
    cluster.node("n", 10)
    await cluster.filter(make_pod(3), ["n"])
    caplog.clear()
    before, shapes = cluster.ledger.table.tick, list(cluster.verbs._verdicts._shapes)
    for memory in range(1, 17):
        await cluster.ask(make_pod(memory, request={"c": {"numa": "single"}}), without=("d/n-0",))
    assert (cluster.ledger.table.tick, len(cluster.ledger)) == (before, 1)
    assert list(cluster.verbs._verdicts._shapes) == shapes
    assert caplog.records == []


async def test_simulation_without_node_names_covers_only_shared_nodes(cluster):
    for name in ("b", "a"):
        cluster.node(name)
    cluster.ledger.put_node("bare", None)
    cluster.ledger.put_node("odd", InventoryError("garbled"))
    cluster.node("gone", 4)
    cluster.ledger.drop_node("gone")
    assert [node.name for node in (await cluster.ask(make_pod(4))).nodes] == ["a", "b", "odd"]


async def test_simulation_names_required_node_change(cluster):
    cluster.ledger.put_node("bare", None)
    cluster.ledger.put_node("odd", InventoryError("garbled"))
    cluster.ledger.put_node("fine", build_inventory("x", memory=16 * GIB, unit_bytes=GIB // 4))
    cluster.ledger.put_node("small", build_inventory("y", memory=2 * GIB, unit_bytes=GIB // 4))
    nodes = (await cluster.ask(make_pod(4), ["bare", "odd", "fine", "small", "stranger"])).nodes
    assert [(node.name, node.sentence, [change.kind for change in node.changes]) for node in nodes] == [
        ("bare", "node has no accelkit inventory", ["node_shared"]),
        ("odd", "node's accelkit inventory is unknown", ["inventory_readable"]),
        ("fine", "node does not use the cluster's memory unit: it still uses 256MiB", ["unit_of_the_cluster"]),
        ("small", "node does not use the cluster's memory unit: it still uses 256MiB", []),
        ("stranger", "node is unknown to accelkit", []),
    ]
    assert [node.changes[0].taken for node in nodes[:3]] == [(), (), ("x",)]
    assert "garbled" in nodes[1].changes[0].sentence
    assert nodes[0].changes[0].sentence.startswith("once the node shares its cards (label accelkit.io/share=true)")


async def test_pod_without_cards_fits_every_node(cluster):
    cluster.node("n", 16, 16)
    simulation = await cluster.ask(make_pod(limits={"cpu": 1}))
    assert ([(node.name, node.fits) for node in simulation.nodes], simulation.request) == ([("n", True)], ())


async def test_reserved_pod_fits_only_its_reserved_node(cluster):
    cluster.node("n")
    cluster.node("m")
    cluster.ledger.reserve(make_ref("p"), "n", build_request(16 * GIB), Policy.BINPACK)
    nodes = (await cluster.ask(make_pod(16))).nodes
    assert [(node.name, node.fits, node.sentence) for node in nodes] == [
        ("m", False, "pod is reserved on node n until the result of its Binding is known"),
        ("n", True, ""),
    ]
    # As if it were not there itself.
    assert [node.fits for node in (await cluster.ask(make_pod(16), without=("d/p",))).nodes] == [True, True]


@pytest.mark.parametrize("named", ["d/n-0", "uid-n-0"])
async def test_simulation_excludes_shares_of_absent_pods(cluster, named):
    cluster.node("n", 14, 16)
    cluster.node("m", 16, 16)
    simulation = await cluster.ask(make_pod(12), without=(named, "d/nobody"))
    assert [(node.name, node.fits, node.score) for node in simulation.nodes] == [("m", False, 0), ("n", True, 5)]
    assert simulation.absent == ("d/nobody",)
    assert not (await cluster.look(make_pod(12), "n")).fits


async def test_simulation_can_exclude_pod_without_assignment(cluster):
    cluster.node("n")
    cluster.ledger.confirm_unassigned(UnassignedPod(make_ref("lost"), "n", build_request(16 * GIB), "it has none"))
    assert [change.sentence for change in (await cluster.look(make_pod(8), "n")).changes] == ["if pod d/lost ended"]
    assert (await cluster.look(make_pod(8), "n", without=("d/lost",))).fits


async def test_identical_nodes_are_searched_once_with_separate_cards_and_pods(cluster, monkeypatch):
    asked = []
    search = module.NodeOutcome.begin
    monkeypatch.setattr(module.NodeOutcome, "begin", lambda self, *of: (asked.append(self), search(self, *of)))
    for name in ("a", "b", "c"):
        cluster.node(name, 10, 12)
    cluster.node("d", 10, cordoned=True)
    nodes = (await cluster.ask(make_pod(8))).nodes
    assert len(asked) == 2
    for node in nodes[:3]:
        less, ended = node.changes
        assert (less.taken, ended.taken) == ((f"{node.name}.0",), (f"{node.name}.0",))
        assert ended.sentence == f"if pod d/{node.name}-0 ended"
    assert nodes[3].changes[1].sentence == "card d.0 uncordoned"


async def test_simulation_uses_constraints_and_units_of_the_dialect(cluster):
    cluster.node("n", 10, 12)
    gcu = make_pod(limits={"enflame.com/gcu-memory": 6}, containers={"e": {"enflame.com/gcu-memory": 4}})
    node = await cluster.look(gcu, "n")
    assert node.sentence == "insufficient GCU Memory in one gcu device"
    # GCUShare's pods share one card, whatever their writer says.
    assert "without_constraint" not in [change.kind for change in node.changes]
    intel = make_pod(limits={"gpu.intel.com/i915": 1, "gpu.intel.com/memory.max": "8500M"})
    change = (await cluster.look(intel, "n")).changes[0]
    assert change.sentence == "2058 MB less memory for container c (6442 MB instead of 8500 MB)"


async def test_card_refusals_name_container_if_requests_differ(cluster):
    cluster.node("n", 10, 12)
    pod = make_pod(6, containers={"big": {"accelkit.io/memory": 8}, "same": {"accelkit.io/memory": 6}})
    node = await cluster.look(pod, "n")
    first, second = node.cards
    assert [refusal.container for refusal in first.refusals] == ["big"]
    assert [refusal.container for refusal in second.refusals] == ["c", "big"]


async def test_too_many_absent_pods_are_rejected(cluster):
    with pytest.raises(BadArgsError, match="`without` contains 257 pods; the limit is 256"):
        await cluster.ask(make_pod(4), without=tuple(f"d/{number}" for number in range(257)))


async def test_concurrent_simulation_is_refused(cluster, monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.01)
    cluster.node("n")
    await cluster.simulator._turn.acquire()
    with pytest.raises(NotReadyError, match="another simulation is in progress"):
        await cluster.ask(make_pod(4))
    cluster.simulator._turn.release()
    assert (await cluster.ask(make_pod(4))).nodes[0].fits


async def test_cancelled_simulation_releases_the_lock(cluster):
    cluster.node("n")
    question = SimulationQuestion(msgspec.convert(make_pod(4), Pod))
    asking = asyncio.create_task(cluster.simulator.simulate(question))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert (await cluster.ask(make_pod(4))).nodes[0].fits


@settings(deadline=None)
@given(st.data())
def test_simulation_matches_results_of_filter_prioritize_and_bind(data):
    draw = data.draw
    cluster = SimulatedCluster(draw(st.sampled_from(Policy)))
    names = [f"n{number}" for number in range(draw(st.integers(1, 4)))]
    for name in names:
        kind = draw(st.sampled_from(["cards", "cards", "cards", "bare", "odd", "unit"]))
        if kind == "cards":
            held = draw(st.lists(st.integers(1, 8), max_size=4))
            cordoned, numa = draw(st.booleans()), draw(st.sampled_from([None, 0]))
            cluster.node(name, *held, cards=draw(st.integers(2, 3)), cordoned=False, numa=numa)
            if cordoned:
                entry = cluster.ledger.find_node(name)
                first, *others = entry.inventory.cards
                cards = (msgspec.structs.replace(first, cordoned=True), *others)
                cluster.ledger.put_node(name, msgspec.structs.replace(entry.inventory, cards=cards))
        elif kind == "unit":
            cluster.ledger.put_node(name, Inventory(1, ()))
        else:
            cluster.ledger.put_node(name, None if kind == "bare" else InventoryError("garbled"))
    refinement = draw(st.sampled_from([{}, {"numa": "single"}, {"model": "n"}, {"split": 2}, {"compute": 400}]))
    memory = draw(st.integers(0, 20))
    pod = make_pod(memory, cards=draw(st.integers(0, 3)), **({"request": {"c": refinement}} if refinement else {}))
    names.append("stranger")

    async def compare():
        simulation = await cluster.ask(copy.deepcopy(pod), names)
        result = await cluster.filter(pod, names)
        assert [node.name for node in simulation.nodes if node.fits] == (result.NodeNames or [])
        assert {node.name: node.sentence for node in simulation.nodes if not node.fits} == (result.FailedNodes or {})
        if simulation.refusal or not simulation.request:
            return
        never = result.FailedAndUnresolvableNodes or {}
        assert {node.name for node in simulation.nodes if not (node.fits or node.resolvable)} == never.keys()
        scores = cluster.verbs.prioritize(Args(msgspec.convert(pod, PendingPod), NodeNames=result.NodeNames))
        assert [(node.name, node.score) for node in simulation.nodes if node.fits] == [
            (each.Host, each.Score) for each in scores
        ]
        request = cluster.feed.read_pending(msgspec.convert(pod, PendingPod)).request
        for node in simulation.nodes:
            if node.fits:
                placed = cluster.ledger.reserve(make_ref("p"), node.name, request, cluster.verbs.policy)
                assert placed.containers == node.assignment
                cluster.ledger.release(make_ref("p").uid)

    asyncio.run(compare())
