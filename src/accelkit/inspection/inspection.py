"""Inspection data: cards, shares and pods, in the format of `GET /inspect` and `accelkit inspect -o json`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from accelkit.errors import ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, PODS
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import CardUse, Holding, NodeEntry, UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import MOVING
from accelkit.model.card import Card, Health
from accelkit.model.inventory import FormerUnit
from accelkit.model.keys import ADVERTISED_ANNOTATION
from accelkit.model.pod import Node, Pod, find_address
from accelkit.placement.misfit import MisfitReason
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import list_served_dialects, load_own_dialect

INSPECTION_VERSION = 1


class ShareView(msgspec.Struct, frozen=True):
    """The share of a card that is allocated to a container. `stage` is claimed, reserved, bound or confirmed."""

    namespace: str
    pod: str
    uid: str
    container: str
    memory_bytes: int
    compute: int
    whole: bool
    stage: str


class CardView(msgspec.Struct, frozen=True):
    """A card and its shares.

    Attributes:
        capacity_bytes: the limit on the sum of all shares, which is `memory_factor` times the memory that can be
            shared.
        used_bytes: the memory that is charged to the pods. It is less than the sum of their shares if containers reuse
            the devices of an init container.
        enforcement: the mechanism that limits containers to the memory of their shares; empty if the limits are
            advisory.
        known: whether the inventory contains the card. It is false for a card to which only pods refer.
    """

    id: str
    vendor: str
    model: str
    memory_bytes: int | None
    reserved_bytes: int
    capacity_bytes: int
    used_bytes: int
    free_bytes: int
    used_compute: int
    whole: bool
    health: str
    known: bool
    shares: list[ShareView]
    health_reason: str = ""
    cordoned: bool = False
    estimated: bool = False
    enforcement: str = ""
    memory_factor: float = 1.0


class CardSetView(msgspec.Struct, frozen=True):
    """A container to which several cards are allocated, and the links between the cards.

    `links` contains the number of card pairs for each kind of link, strongest link first. It is empty if the links are
    unknown.
    """

    namespace: str
    pod: str
    uid: str
    container: str
    cards: tuple[str, ...]
    links: dict[str, int]


class UnassignedPodView(msgspec.Struct, frozen=True):
    """A pod that uses cards on a node, but does not have an assignment with the card IDs."""

    namespace: str
    pod: str
    uid: str
    memory_bytes: int
    whole: bool
    problem: str


class Totals(msgspec.Struct, frozen=True):
    """Total amounts of several cards."""

    cards: int
    capacity_bytes: int
    used_bytes: int
    free_bytes: int


class InspectedNode(msgspec.Struct, frozen=True):
    """The inspection of a single node.

    Attributes:
        state: "shared", "unknown" (the inventory is invalid; see `problem`) or "none" (the node has no inventory).
        address: the IP address of the node; empty if the address was not requested.
        former_units: the former units in which devices were allocated to pods.
        sets: the containers to which several cards are allocated.
    """

    name: str
    state: str
    problem: str
    unit_bytes: int | None
    cards: list[CardView]
    unassigned: list[UnassignedPodView]
    totals: Totals
    address: str = ""
    former_units: tuple[FormerUnit, ...] = ()
    sets: tuple[CardSetView, ...] = ()


class Inspection(msgspec.Struct, frozen=True):
    """The inspection of a cluster or of one node."""

    unit_bytes: int | None
    nodes: list[InspectedNode]
    totals: Totals
    version: int = INSPECTION_VERSION


def view_node(entry: NodeEntry) -> InspectedNode:
    """Return the view of a node."""
    shares: dict[str, list[ShareView]] = {}
    for held in _sort(entry.holdings.values()):
        for card, share in _shares(held):
            shares.setdefault(card, []).append(share)
    cards = [_card(card, entry.find_use(card.id), shares.pop(card.id, [])) for card in entry.list_cards()]
    cards += [_lost_card(card, entry.uses[card], held) for card, held in sorted(shares.items()) if card in entry.uses]
    return InspectedNode(
        entry.name,
        _state(entry),
        _problem(entry),
        entry.inventory.unit_bytes if entry.inventory else None,
        cards,
        [_view_unassigned(pod) for pod in entry.unassigned.values()],
        _sum(cards),
        former_units=entry.inventory.former_units if entry.inventory else (),
        sets=tuple(each for held in _sort(entry.holdings.values()) for each in _list_sets(entry, held)),
    )


def is_worth_showing(node: InspectedNode) -> bool:
    """Return whether lists include a node. Lists include nodes with cards, and nodes with pods that use cards."""
    return bool(node.state != "none" or node.cards or node.unassigned)


def view(entries: Iterable[NodeEntry]) -> Inspection:
    """Return an inspection of all nodes with cards or with pods that use cards."""
    return assemble([node for node in map(view_node, entries) if is_worth_showing(node)])


def assemble(nodes: Sequence[InspectedNode], unit_bytes: int | None = None) -> Inspection:
    """Return an inspection of these nodes with totals. By default, the unit is the first unit among the nodes."""
    totals = Totals(
        sum(node.totals.cards for node in nodes),
        sum(node.totals.capacity_bytes for node in nodes),
        sum(node.totals.used_bytes for node in nodes),
        sum(node.totals.free_bytes for node in nodes),
    )
    return Inspection(unit_bytes or next((n.unit_bytes for n in nodes if n.unit_bytes), None), list(nodes), totals)


async def inspect_cluster(api: ApiClient, *, node: str | None = None) -> Inspection:
    """Read nodes and pods from the API server; return an inspection in the same format as from the extender's ledger.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: the specified node does not exist.
    """
    return (await read_cluster(api, node=node))[0]


async def read_cluster(api: ApiClient, *, node: str | None = None) -> tuple[Inspection, tuple[Dialect, ...]]:
    """Return the result of `inspect_cluster`, and the dialects that were used to read the pods.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: the specified node does not exist.
    """
    ledger = Ledger()
    nodes, _ = await list_all(api, NODES, Node)
    dialects = list_served_dialects(each.find_annotation(ADVERTISED_ANNOTATION) or "" for each in nodes)
    feed = LedgerFeed(ledger, dialects)
    feed.replace_nodes(nodes)
    addresses = {each.metadata.name: find_address(each.status.addresses or ()) for each in nodes}
    query = {"fieldSelector": f"spec.nodeName={node}"} if node else None
    feed.replace_pods((await list_all(api, PODS, Pod, query=query, trim=feed.trim_pod))[0])
    if node is None:
        found = view(ledger.list_nodes())
        named = [msgspec.structs.replace(each, address=addresses.get(each.name, "")) for each in found.nodes]
        return msgspec.structs.replace(found, nodes=named), dialects
    entry = ledger.find_node(node)
    if entry is None:
        raise ServiceError(f"node {node!r} does not exist", next_step="list the nodes with cards by `accelkit inspect`")
    return assemble([msgspec.structs.replace(view_node(entry), address=addresses.get(node, ""))]), dialects


def _shares(held: Holding) -> Iterable[tuple[str, ShareView]]:
    pod = held.pod
    for container, shares in held.assignment.containers.items():
        for share in shares:
            yield (
                share.card,
                ShareView(
                    *(pod.namespace, pod.name, pod.uid, container),
                    *(share.memory_bytes, share.compute, share.whole, held.stage.value),
                ),
            )


def _sort(holdings: Iterable[Holding]) -> list[Holding]:
    return sorted(holdings, key=lambda held: (held.pod.namespace, held.pod.name))


def _list_sets(entry: NodeEntry, held: Holding) -> Iterable[CardSetView]:
    links, pod = entry.describe_links(held.assignment), held.pod
    for container, shares in held.assignment.containers.items():
        if len(shares) > 1 and container != MOVING:
            cards = tuple(share.card for share in shares)
            yield CardSetView(pod.namespace, pod.name, pod.uid, container, cards, links.get(container, {}))


def _card(card: Card, use: CardUse | None, shares: list[ShareView]) -> CardView:
    used = use or CardUse()
    return CardView(
        *(card.id, card.vendor, card.model, card.memory_bytes, card.reserved_bytes, card.capacity_bytes),
        *(used.used_bytes, card.capacity_bytes - used.used_bytes, used.used_compute, used.whole, card.health.value),
        known=True,
        shares=shares,
        health_reason=card.health_reason,
        cordoned=card.cordoned,
        estimated=card.estimated,
        enforcement=card.enforcement,
        memory_factor=card.memory_factor,
    )


def _lost_card(card: str, use: CardUse, shares: list[ShareView]) -> CardView:
    return CardView(
        *(card, "", "", None, 0, 0, use.used_bytes, -use.used_bytes, use.used_compute, use.whole),
        Health.UNKNOWN.value,
        known=False,
        shares=shares,
    )


def _view_unassigned(pod: UnassignedPod) -> UnassignedPodView:
    return UnassignedPodView(pod.pod.namespace, pod.pod.name, pod.pod.uid, pod.memory_bytes, pod.whole, pod.problem)


def _state(entry: NodeEntry) -> str:
    if entry.problem is None:
        return "shared"
    return "none" if entry.problem.reason in (MisfitReason.NO_INVENTORY, MisfitReason.UNKNOWN_NODE) else "unknown"


def _problem(entry: NodeEntry) -> str:
    if entry.problem is None:
        return ""
    sentence = load_own_dialect("native").format_misfit(entry.problem)
    # Do not append the detail if the sentence already contains it, or if it is empty.
    return sentence if entry.problem.detail in sentence else f"{sentence}: {entry.problem.detail}"


def _sum(cards: Sequence[CardView]) -> Totals:
    known = [card for card in cards if card.known]
    return Totals(
        len(known),
        sum(card.capacity_bytes for card in known),
        sum(card.used_bytes for card in cards),
        sum(card.free_bytes for card in cards),
    )
