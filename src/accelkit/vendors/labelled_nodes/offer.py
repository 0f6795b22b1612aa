"""Reader of a node's cards and their total amounts, from the node's labels and status.

All cards of a node are considered equal: each card has an equal part of the node's allocatable amounts, rounded
down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from accelkit.errors import InventoryError, QuantityError
from accelkit.model.amounts import Amounts, build_amounts
from accelkit.model.card import Card, Link
from accelkit.model.inventory import Inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.pod import Node
from accelkit.model.units import MAX_AMOUNT, parse_quantity
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.labelled_nodes.labels import (
    find_preferred_card,
    read_card_numbers,
    read_links,
    read_numa_nodes,
    read_tiles_out,
)

_NO_LABELS: Final[Mapping[str, str]] = {}


class NodeOffer(msgspec.Struct, frozen=True):
    """The cards and amounts of a node, from sources other than the inventory of accelkit's agent.

    Attributes:
        vendor: the vendor of the cards.
        numbers: the numbers of the cards from the node's labels; empty if there are no labels.
        amounts: the total amounts of all cards.
        memory_bytes: the total memory of all cards; None if it is unknown.
        numa: the pairs of card number and NUMA node.
        links: the numbers of each pair of linked cards.
        link_kind: the name of these links.
        tiles: the resource that counts tiles. Its amount is reduced by `tiles_out`.
        tiles_out: the card number and tile number of each disabled tile.
        preferred: the name of the card that is assigned first, such as `card3`; empty if there is none.
        problem: the reason why the labels cannot be read, as a sentence; empty if they can be read.
    """

    vendor: str = ""
    numbers: tuple[int, ...] = ()
    amounts: Amounts = ()
    memory_bytes: int | None = None
    numa: tuple[tuple[int, int], ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    link_kind: str = ""
    tiles: str = ""
    tiles_out: tuple[tuple[int, int], ...] = ()
    preferred: str = ""
    problem: str = ""


NOTHING: Final = NodeOffer()


def read_offer(node: Node, dialects: Sequence[Dialect]) -> NodeOffer:
    """Return the cards and amounts of a node, from the first of these dialects that reads labels and amounts."""
    dialect = next((each for each in dialects if each.card_labels and each.resources.amounts), None)
    if dialect is None or dialect.card_labels is None:
        return NOTHING
    names = dialect.resources
    # A kubelet subtracts unhealthy devices from the allocatable amounts. The inventory of accelkit's agent specifies
    # which devices are unhealthy.
    counted = names.counts if node.find_annotation(INVENTORY_ANNOTATION) else ()
    allocatable, capacity = node.status.allocatable or {}, node.status.capacity or {}
    found = {key: text for key, text in allocatable.items() if key.startswith(names.amounts)}
    found |= {key: capacity[key] for key in found.keys() & set(counted) & capacity.keys()}
    amounts = {key: _read(text) for key, text in found.items() if names.is_amount(key)}
    memory = _read(found[names.bytes]) if names.bytes in found else None
    labels, keys = node.metadata.labels or _NO_LABELS, dialect.card_labels
    numbers, problem = tuple[int, ...](), ""
    try:
        numbers = read_card_numbers(labels, keys)
    except InventoryError as exc:
        problem = str(exc)
    return NodeOffer(
        keys.vendor,
        numbers,
        build_amounts(amounts),
        memory,
        numa=read_numa_nodes(labels, keys.numa),
        links=read_links(labels, keys.links, numbers),
        link_kind=keys.link_kind,
        tiles=keys.tiles,
        tiles_out=read_tiles_out(labels, keys.tiles_out),
        preferred=find_preferred_card(labels, dialect),
        problem=problem,
    )


def build_inventory(offer: NodeOffer, unit_bytes: int) -> Inventory:
    """Return the inventory of a node without accelkit's agent, with the card names from the node's labels.

    Raises:
        InventoryError: the labels cannot be read.
    """
    if offer.problem:
        raise InventoryError(offer.problem)
    cards = len(offer.numbers)
    memory_bytes = None if offer.memory_bytes is None else min(offer.memory_bytes // cards, MAX_AMOUNT)
    found = (
        Card(f"card{number}", offer.vendor, "", memory_bytes, index=number, minor=number, memory_source="status")
        for number in offer.numbers
    )
    return add_offer(Inventory(unit_bytes, tuple(found)), offer)


def add_offer(inventory: Inventory, offer: NodeOffer) -> Inventory:
    """Return the inventory with additional facts from the offer. Each card gets an equal part of the node's amounts.

    NUMA nodes and links from accelkit's agent take precedence.
    """
    count = len(offer.numbers) or len(inventory.cards)
    if not count or not (offer.amounts or offer.preferred or offer.numa or offer.links):
        return inventory
    part = {name: amount // count for name, amount in offer.amounts}
    ids = {card.number: card.id for card in inventory.cards if card.number is not None}
    numa, links = dict(offer.numa), list[tuple[int, Link]]()
    for one, other in offer.links:
        links += [(end, Link(ids[to], offer.link_kind)) for end, to in ((one, other), (other, one)) if to in ids]
    cards = tuple(
        msgspec.structs.replace(
            card,
            amounts=_find_amounts(part, card, offer),
            preferred=f"card{card.number}" == offer.preferred,
            numa=card.numa if card.numa is not None or card.number is None else numa.get(card.number),
            links=card.links or tuple(link for number, link in links if number == card.number),
        )
        for card in inventory.cards
    )
    return msgspec.structs.replace(inventory, cards=cards)


def _find_amounts(part: Mapping[str, int], card: Card, offer: NodeOffer) -> Amounts:
    """Return one card's part of the amounts. An amount of less than one per card is omitted."""
    has = {name: amount for name, amount in part.items() if amount > 0}
    if offer.tiles in has:
        has[offer.tiles] -= sum(number == card.number and tile < has[offer.tiles] for number, tile in offer.tiles_out)
    return build_amounts(has)


def _read(text: str) -> int:
    # Kubelets write valid quantities. Any other text is treated as 0.
    try:
        return parse_quantity(text)
    except QuantityError:
        return 0
