"""What a node's labels and status say of its cards: how many there are, and what they have of each amount together.

All cards of a node count as equal there: each has its part of what the node can allocate, rounded down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from accelkit.errors import InventoryError, QuantityError
from accelkit.model.amounts import Amounts, build_amounts
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import Node
from accelkit.model.units import MAX_AMOUNT, parse_quantity
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import ADVERTISED_ANNOTATION
from accelkit.vendors.labelled_nodes.labels import find_preferred_card, read_card_numbers

_NO_LABELS: Final[Mapping[str, str]] = {}


class NodeOffer(msgspec.Struct, frozen=True):
    """What a node says beside the inventory of our agent.

    Attributes:
        vendor: of its cards.
        numbers: theirs, by its labels; none where these say nothing.
        amounts: of all its cards together.
        memory_bytes: the same of memory; None where nothing says it.
        preferred: name of the card that is taken first, as `card3`; empty for none.
        problem: why the labels cannot be read, as a sentence; empty where they can.
    """

    vendor: str = ""
    numbers: tuple[int, ...] = ()
    amounts: Amounts = ()
    memory_bytes: int | None = None
    preferred: str = ""
    problem: str = ""


NOTHING: Final = NodeOffer()


def read_offer(node: Node, dialects: Sequence[Dialect]) -> NodeOffer:
    """Return what a node says of its cards in the first of these dialects that has such words."""
    dialect = next((each for each in dialects if each.card_labels and each.resources.amounts), None)
    if dialect is None or dialect.card_labels is None:
        return NOTHING
    names = dialect.resources
    # A kubelet takes cards that are ill from what can be allocated. Where our agent serves, they are known one by one.
    ours = (node.find_annotation(ADVERTISED_ANNOTATION) or "").split(",")
    allocatable, capacity = node.status.allocatable or {}, node.status.capacity or {}
    found = {key: text for key, text in allocatable.items() if key.startswith(names.amounts)}
    found |= {key: capacity[key] for key in found.keys() & set(ours) & capacity.keys()}
    amounts = {key: _read(text) for key, text in found.items() if names.is_amount(key)}
    memory = _read(found[names.bytes]) if names.bytes in found else None
    labels = node.metadata.labels or _NO_LABELS
    preferred = find_preferred_card(labels, dialect)
    numbers, problem = tuple[int, ...](), ""
    try:
        numbers = read_card_numbers(labels, dialect.card_labels)
    except InventoryError as exc:
        problem = str(exc)
    return NodeOffer(dialect.card_labels.vendor, numbers, build_amounts(amounts), memory, preferred, problem)


def build_inventory(offer: NodeOffer, unit_bytes: int) -> Inventory:
    """Return the cards of a node without an agent of ours, by its labels; their names are those of the labels.

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
    """Return an inventory whose cards have their part of the node's amounts, and of which one may be preferred."""
    count = len(offer.numbers) or len(inventory.cards)
    if not (offer.amounts or offer.preferred) or not count:
        return inventory
    parts = ((name, amount // count) for name, amount in offer.amounts)
    each = tuple((name, part) for name, part in parts if part > 0)
    cards = tuple(
        msgspec.structs.replace(card, amounts=each, preferred=f"card{card.number}" == offer.preferred)
        for card in inventory.cards
    )
    return msgspec.structs.replace(inventory, cards=cards)


def _read(text: str) -> int:
    # What a kubelet writes is a quantity; of anything else there is nothing to give.
    try:
        return parse_quantity(text)
    except QuantityError:
        return 0
