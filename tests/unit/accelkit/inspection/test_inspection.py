import pytest
from fake_api.server import FakeApi
from support.nodes import build_node
from support.pods import build_pod, make_ref
from support.requests import build_inventory, build_request

from accelkit.errors import InventoryError, ServiceError
from accelkit.inspection.inspection import (
    CardSetView,
    CardView,
    ShareView,
    Totals,
    UnassignedPodView,
    assemble,
    inspect_cluster,
    view,
    view_node,
)
from accelkit.kube.paths import NODES, PODS, build_node_path, build_pod_path
from accelkit.ledger.holding import UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.policies import Policy

GIB = 2**30
INVENTORY = Inventory(GIB, (Card("a", "v", "m", 16 * GIB), Card("b", "v", "m", 16 * GIB), Card("c", "v", "m", None)))


@pytest.fixture
def ledger():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("n", INVENTORY)
    return ledger


def node_of(ledger, name="n"):
    return {node.name: node for node in view(ledger.list_nodes()).nodes}[name]


def test_card_lists_its_shares_and_free_memory(ledger):
    for name, memory in (("q", 4), ("p", 8)):
        ledger.reserve(make_ref(name), "n", build_request(memory * GIB), Policy.BINPACK)
    ledger.accept("uid-p")
    card = node_of(ledger).cards[0]
    assert (card.id, card.used_bytes, card.free_bytes, card.whole, card.known) == ("a", 12 * GIB, 4 * GIB, False, True)
    assert [(share.pod, share.container, share.memory_bytes, share.stage) for share in card.shares] == [
        ("p", "c", 8 * GIB, "bound"),
        ("q", "c", 4 * GIB, "reserved"),
    ]


def test_container_with_several_cards_lists_their_links(ledger):
    ledger.put_node("n", Inventory(GIB, INVENTORY.cards, topology=("XDC", "DXC", "CCX")))
    ledger.reserve(make_ref("p"), "n", build_request(cards=2), Policy.TOPOLOGY)
    ledger.reserve(make_ref("q"), "n", build_request(cards=1), Policy.TOPOLOGY)
    assert node_of(ledger).sets == (CardSetView("d", "p", "uid-p", "c", ("a", "b"), {"link": 1}),)
    ledger.put_node("n", Inventory(GIB, ()))
    assert node_of(ledger).sets[0].links == {}


def test_card_view_contains_all_inventory_fields(ledger):
    told = Card(
        *("a", "vendor", "model", 16 * GIB, GIB),
        health=Health.UNHEALTHY,
        health_reason="XID 79",
        cordoned=True,
        estimated=True,
        enforcement="mps",
    )
    ledger.put_node("n", Inventory(GIB, (told,)))
    assert node_of(ledger).cards == [
        CardView(
            *("a", "vendor", "model", 16 * GIB, GIB, 15 * GIB, 0, 15 * GIB, 0),
            whole=False,
            health="unhealthy",
            known=True,
            shares=[],
            health_reason="XID 79",
            cordoned=True,
            estimated=True,
            enforcement="mps",
        )
    ]


def test_share_view_contains_all_assignment_fields(ledger):
    shares = (Share("a", 4 * GIB, compute=250), Share("b", 16 * GIB, whole=True))
    ledger.confirm(make_ref("p"), "n", Assignment({"c": shares}), [("c", Kind.APP)])
    shared, whole, _ = node_of(ledger).cards
    assert shared.shares == [ShareView("d", "p", "uid-p", "c", 4 * GIB, 250, whole=False, stage="confirmed")]
    assert whole.shares == [ShareView("d", "p", "uid-p", "c", 16 * GIB, 0, whole=True, stage="confirmed")]
    assert (shared.used_compute, shared.whole, whole.used_compute, whole.whole) == (250, False, 0, True)


def test_uncounted_shares_are_not_free(ledger):
    card = Card("a", "v", "m", 16 * GIB)
    ledger.put_node("n", Inventory(GIB, (card,), uncounted=(Share("a", 4 * GIB, 250),)))
    shown = node_of(ledger).cards[0]
    assert (shown.used_bytes, shown.free_bytes, shown.used_compute, shown.shares) == (4 * GIB, 12 * GIB, 250, [])


def test_totals_are_sums_over_cards(ledger):
    ledger.put_node("m", build_inventory("a", memory=8 * GIB, unit_bytes=GIB))
    ledger.reserve(make_ref("p"), "n", build_request(4 * GIB, cards=2), Policy.BINPACK)
    ledger.reserve(make_ref("q"), "m", build_request(), Policy.BINPACK)
    shown = view(ledger.list_nodes())
    assert [node.totals for node in shown.nodes] == [
        Totals(1, 8 * GIB, 8 * GIB, 0),
        Totals(3, 32 * GIB, 8 * GIB, 24 * GIB),
    ]
    assert shown.totals == Totals(4, 40 * GIB, 16 * GIB, 24 * GIB)


def test_memory_reused_from_init_container_is_counted_once(ledger):
    containers = (ContainerRequest("i", Kind.INIT, 1, 8 * GIB), ContainerRequest("c", Kind.APP, 1, 4 * GIB))
    ledger.reserve(make_ref("p"), "n", PodRequest(containers), Policy.BINPACK)
    card = node_of(ledger).cards[0]
    assert card.used_bytes == 8 * GIB
    assert {share.container: share.memory_bytes for share in card.shares} == {"i": 8 * GIB, "c": 4 * GIB}


def test_held_card_missing_from_inventory_is_listed_as_unknown(ledger):
    ledger.reserve(make_ref("p"), "n", build_request(4 * GIB), Policy.BINPACK)
    ledger.put_node("n", Inventory(GIB, INVENTORY.cards[1:]))
    *_, lost = node_of(ledger).cards
    share = ShareView("d", "p", "uid-p", "c", 4 * GIB, 0, whole=False, stage="reserved")
    assert lost == CardView(
        *("a", "", "", None, 0, 0, 4 * GIB, -4 * GIB, 0),
        whole=False,
        health="unknown",
        known=False,
        shares=[share],
        health_reason="",
        cordoned=False,
        estimated=False,
        enforcement="",
    )
    assert node_of(ledger).totals == Totals(2, 16 * GIB, 4 * GIB, 12 * GIB)


def test_pod_without_assignment_is_listed_with_its_problem(ledger):
    ledger.confirm_unassigned(UnassignedPod(make_ref("p"), "n", build_request(4 * GIB), "it has none"))
    ledger.confirm_unassigned(UnassignedPod(make_ref("q"), "n", build_request(), "it is garbled"))
    assert node_of(ledger).unassigned == [
        UnassignedPodView("d", "p", "uid-p", 4 * GIB, whole=False, problem="it has none"),
        UnassignedPodView("d", "q", "uid-q", 0, whole=True, problem="it is garbled"),
    ]


def test_node_with_unknown_inventory_keeps_its_cards_and_reports_the_problem(ledger):
    ledger.put_node("n", InventoryError("garbled"))
    node = node_of(ledger)
    assert (node.state, node.problem) == ("unknown", "node's accelkit inventory is unknown: garbled")
    assert [card.id for card in node.cards] == ["a", "b", "c"]


def test_node_with_another_memory_unit_reports_the_problem(ledger):
    ledger.put_node("n", Inventory(2**28, INVENTORY.cards))
    node = node_of(ledger)
    assert (node.state, node.unit_bytes) == ("unknown", 2**28)
    assert node.problem == "node does not use the cluster's memory unit: it still uses 256MiB"


def test_nodes_without_cards_and_pods_are_omitted(ledger):
    ledger.put_node("bare", None)
    ledger.put_node("garbled", InventoryError("garbled"))
    ledger.put_node("held", None)
    ledger.confirm_unassigned(UnassignedPod(make_ref("p"), "held", build_request(4 * GIB), "it has none"))
    assert [node.name for node in view(ledger.list_nodes()).nodes] == ["garbled", "held", "n"]
    held = node_of(ledger, "held")
    assert (held.state, held.problem, held.unit_bytes) == ("none", "node has no accelkit inventory", None)


@pytest.mark.parametrize(("given", "expected"), [(2 * GIB, 2 * GIB), (None, GIB)])
def test_unit_is_that_of_the_cluster_or_of_the_first_node_with_a_unit(ledger, given, expected):
    ledger.put_node("bare", None)
    ledger.put_node("o", Inventory(4 * GIB, ()))
    found = assemble([view_node(each) for each in ledger.list_nodes()], given)
    assert [node.name for node in found.nodes] == ["bare", "n", "o"]
    assert found.unit_bytes == expected


@pytest.fixture
def api():
    """One node and one pod on it."""
    api = FakeApi()
    api.store(NODES, build_node("n", INVENTORY))
    shares = {"c": (Share("b", 4 * GIB),)}
    api.store(PODS, build_pod("p", memory="4", assigned=shares, metadata={"uid": "u"}, nodeName="n"))
    return api


@pytest.mark.parametrize(("node", "selector"), [(None, None), ("n", "spec.nodeName=n")])
async def test_inspection_from_api_server_matches_the_ledger(api, node, selector):
    shown = await inspect_cluster(api, node=node)
    assert shown.unit_bytes == GIB
    assert [(card.id, card.used_bytes) for card in shown.nodes[0].cards] == [("a", 0), ("b", 4 * GIB), ("c", 0)]
    assert (api.requests[1].path, api.requests[1].query.get("fieldSelector")) == (PODS, selector)


@pytest.mark.parametrize("node", [None, "n"])
async def test_node_view_contains_its_internal_address(api, node):
    addresses = [
        {"type": "Hostname", "address": "n.example"},
        {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "InternalIP", "address": "fd00::1"},
    ]
    assert [each.address for each in (await inspect_cluster(api, node=node)).nodes] == [""]
    api.objects[build_node_path("n")]["status"] = {"addresses": addresses}
    assert [each.address for each in (await inspect_cluster(api, node=node)).nodes] == ["10.0.0.1"]


async def test_inspection_of_one_node_omits_other_nodes(api):
    api.store(NODES, {"metadata": {"name": "bare"}})
    shown = await inspect_cluster(api, node="bare")
    assert [(each.name, each.state, each.cards) for each in shown.nodes] == [("bare", "none", [])]
    assert [each.name for each in (await inspect_cluster(api)).nodes] == ["n"]


@pytest.mark.parametrize("node", [None, "n"])
async def test_deleted_node_with_pods_has_no_address(api, node):
    del api.objects[build_node_path("n")]
    (shown,) = (await inspect_cluster(api, node=node)).nodes
    assert (shown.name, shown.state, shown.address) == ("n", "none", "")
    assert [(card.id, card.known) for card in shown.cards] == [("b", False)]


@pytest.mark.parametrize(("resource", "used"), [("aliyun.com/gpu-mem", 4 * GIB), ("gpu.intel.com/i915", 0)])
async def test_pods_count_in_dialects_served_by_accelkit_only(api, resource, used):
    container = {"name": "c", "resources": {"limits": {resource: "4"}}}
    api.objects[build_pod_path("d", "p")]["spec"]["containers"] = [container]
    if not used:
        # Intel's own device plugin gives cards by it, and nothing says that accelkit chose one.
        api.objects[build_pod_path("d", "p")]["metadata"]["annotations"] = {}
    (node,) = (await inspect_cluster(api)).nodes
    assert (node.totals.used_bytes, node.unassigned) == (used, [])


async def test_missing_node_is_an_error_with_next_step(api):
    with pytest.raises(ServiceError, match="node 'x' does not exist; list the nodes with cards by `accelkit inspect`"):
        await inspect_cluster(api, node="x")
