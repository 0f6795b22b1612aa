from __future__ import annotations

import io

import msgspec
import pytest
from fake_api.server import FakeApi
from rich.console import Console

from accelkit.errors import InventoryError, ServiceError
from accelkit.inspection.inspection import Inspection, Totals, inspect_cluster, view
from accelkit.inspection.table import build_inspection_table
from accelkit.kube.paths import NODES, PODS
from accelkit.ledger.holding import UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import INVENTORY_ANNOTATION, Inventory, encode_inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.policies import Policy

GIB = 2**30
INVENTORY = Inventory(GIB, (Card("a", "v", "m", 16 * GIB), Card("b", "v", "m", 16 * GIB), Card("c", "v", "m", None)))


def ref(name):
    return PodRef("d", name, f"uid-{name}")


def wants(memory=0, cards=1):
    return PodRequest((ContainerRequest("c", Kind.APP, cards, memory, whole=not memory),))


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("n", INVENTORY)
    return ledger


def node_of(ledger, name="n"):
    return {node.name: node for node in view(ledger.list_nodes()).nodes}[name]


def test_a_card_shows_its_shares_and_what_is_left(ledger):
    for name, memory in (("q", 4), ("p", 8)):
        ledger.reserve(ref(name), "n", wants(memory * GIB), Policy.BINPACK)
    ledger.accept("uid-p")
    card = node_of(ledger).cards[0]
    assert (card.id, card.used_bytes, card.free_bytes, card.whole, card.known) == ("a", 12 * GIB, 4 * GIB, False, True)
    assert [(share.pod, share.container, share.memory_bytes, share.stage) for share in card.shares] == [
        ("p", "c", 8 * GIB, "bound"),
        ("q", "c", 4 * GIB, "reserved"),
    ]


def test_totals_are_the_sums_of_the_cards(ledger):
    ledger.put_node("m", Inventory(GIB, (Card("a", "v", "m", 8 * GIB),)))
    ledger.reserve(ref("p"), "n", wants(4 * GIB, cards=2), Policy.BINPACK)
    ledger.reserve(ref("q"), "m", wants(), Policy.BINPACK)
    shown = view(ledger.list_nodes())
    assert [node.totals for node in shown.nodes] == [
        Totals(1, 8 * GIB, 8 * GIB, 0),
        Totals(3, 32 * GIB, 8 * GIB, 24 * GIB),
    ]
    assert shown.totals == Totals(4, 40 * GIB, 16 * GIB, 24 * GIB)


def test_what_an_init_container_passes_on_costs_the_card_once(ledger):
    containers = (ContainerRequest("i", Kind.INIT, 1, 8 * GIB), ContainerRequest("c", Kind.APP, 1, 4 * GIB))
    ledger.reserve(ref("p"), "n", PodRequest(containers), Policy.BINPACK)
    card = node_of(ledger).cards[0]
    assert card.used_bytes == 8 * GIB
    assert {share.container: share.memory_bytes for share in card.shares} == {"i": 8 * GIB, "c": 4 * GIB}


def test_a_card_that_pods_hold_and_no_inventory_names_is_shown_as_lost(ledger):
    ledger.reserve(ref("p"), "n", wants(4 * GIB), Policy.BINPACK)
    ledger.put_node("n", Inventory(GIB, INVENTORY.cards[1:]))
    (lost,) = [card for card in node_of(ledger).cards if not card.known]
    assert (lost.id, lost.used_bytes, lost.capacity_bytes, lost.memory_bytes) == ("a", 4 * GIB, 0, None)
    assert [share.pod for share in lost.shares] == ["p"]
    assert node_of(ledger).totals == Totals(2, 16 * GIB, 4 * GIB, 12 * GIB)


def test_a_pod_without_assignment_is_shown_with_its_problem(ledger):
    ledger.confirm_unassigned(UnassignedPod(ref("p"), "n", wants(4 * GIB), "it has none"))
    (found,) = node_of(ledger).unassigned
    assert (found.pod, found.memory_bytes, found.whole, found.problem) == ("p", 4 * GIB, False, "it has none")


def test_a_node_with_an_unknown_inventory_keeps_its_cards_and_says_what_is_wrong(ledger):
    ledger.put_node("n", InventoryError("garbled"))
    node = node_of(ledger)
    assert (node.state, node.problem) == ("unknown", "node's accelkit inventory is unknown: garbled")
    assert [card.id for card in node.cards] == ["a", "b", "c"]


def test_nodes_without_cards_and_pods_are_left_out(ledger):
    ledger.put_node("bare", None)
    assert [node.name for node in view(ledger.list_nodes()).nodes] == ["n"]


def test_a_node_that_is_gone_is_shown_while_pods_hold_its_cards(ledger):
    ledger.reserve(ref("p"), "n", wants(4 * GIB), Policy.BINPACK)
    ledger.drop_node("n")
    node = node_of(ledger)
    assert (node.state, [card.known for card in node.cards]) == ("none", [False])


def test_an_inspection_reads_back_as_it_was_written(ledger):
    ledger.reserve(ref("p"), "n", wants(), Policy.BINPACK)
    shown = view(ledger.list_nodes())
    assert msgspec.json.decode(msgspec.json.encode(shown), type=Inspection) == shown


@pytest.fixture
def api():
    """One node and one pod on it."""
    api = FakeApi()
    inventory = {INVENTORY_ANNOTATION: encode_inventory(INVENTORY)}
    api.store(NODES, {"metadata": {"name": "n", "annotations": inventory}})
    text = encode_assignment(Assignment({"c": (Share("b", 4 * GIB),)}))
    metadata = {"name": "p", "namespace": "d", "uid": "u", "annotations": {ASSIGNMENT_ANNOTATION: text}}
    limits = {"resources": {"limits": {"accelkit.io/memory": "4"}}}
    api.store(PODS, {"metadata": metadata, "spec": {"nodeName": "n", "containers": [{"name": "c", **limits}]}})
    return api


@pytest.mark.parametrize(("node", "selector"), [(None, None), ("n", "spec.nodeName=n")])
async def test_the_api_server_alone_shows_what_the_ledger_would(api, node, selector):
    shown = await inspect_cluster(api, node=node)
    assert shown.unit_bytes == GIB
    assert [(card.id, card.used_bytes) for card in shown.nodes[0].cards] == [("a", 0), ("b", 4 * GIB), ("c", 0)]
    assert (api.requests[1].path, api.requests[1].query.get("fieldSelector")) == (PODS, selector)


async def test_a_node_that_does_not_exist_is_an_error_with_a_next_step(api):
    with pytest.raises(ServiceError, match="there is no node 'x'; `accelkit inspect` lists"):
        await inspect_cluster(api, node="x")


def printed(inspection):
    stream = io.StringIO()
    Console(width=160, file=stream).print(build_inspection_table(inspection))
    return stream.getvalue()


def test_the_table_shows_cards_pods_strays_and_totals(ledger):
    ledger.reserve(ref("p"), "n", wants(8 * GIB), Policy.BINPACK)
    ledger.reserve(ref("w"), "n", wants(), Policy.SPREAD)
    ledger.confirm_unassigned(UnassignedPod(ref("s"), "n", wants(4 * GIB), "it has none"))
    text = printed(view(ledger.list_nodes()))
    assert "8 GiB of 16 GiB" in text
    assert "d/p [c]" in text
    assert "whole card  (reserved)" in text
    assert "memory unknown" in text
    assert "? d/s holds cards, but which is not known: it has none" in text
    assert "1 node, 3 cards, 24 GiB of 32 GiB used, unit 1 GiB" in text


def test_an_empty_cluster_tells_what_to_do():
    assert "accelkit.io/share=true" in printed(view([]))
