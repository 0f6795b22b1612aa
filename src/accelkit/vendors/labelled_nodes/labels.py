"""Parser for node labels that other systems use to list cards.

The value of a label has at most 63 characters. A longer value is continued in labels with the same key and the suffix
2, 3 and so on. Each continuation begins with `Z`, because a value must not begin with a dot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from typing import Final

from accelkit.errors import InventoryError
from accelkit.model.request import MAX_CARDS
from accelkit.texts import shorten
from accelkit.vendors.card_numbers import parse_card_name, parse_number
from accelkit.vendors.dialect import CardLabels, Dialect

_CONTINUES: Final = "Z"
# The value of a label that disables both a card and its PCI group.
_WHOLE_GROUP: Final = "PCI_GROUP"
_TILE: Final = "gt"


def join_label(labels: Mapping[str, str], key: str) -> str:
    """Return the joined value of a label; empty if it is missing, or if a continuation does not begin with `Z`."""
    keys = takewhile(labels.__contains__, (f"{key}{number}" for number in count(2)))
    parts = [labels[each] for each in keys]
    if not all(part.startswith(_CONTINUES) for part in parts):
        return ""
    return labels.get(key, "") + "".join(part.removeprefix(_CONTINUES) for part in parts)


def read_card_numbers(labels: Mapping[str, str], keys: CardLabels) -> tuple[int, ...]:
    """Return the numbers of a node's cards, in the order of the label; empty if the label is missing.

    Raises:
        InventoryError: a label is invalid.
    """
    numbers, names = join_label(labels, keys.numbers), labels.get(keys.names, "")
    key, text = (keys.numbers, numbers) if numbers else (keys.names, names)
    words = text.split(".") if text else []
    found = [parse_number(word) if numbers else parse_card_name(word) for word in words]
    known = [number for number in found if number is not None]
    if len(set(known)) < len(found) or len(found) > MAX_CARDS:
        example = "0.1.2" if numbers else "card0.card1"
        raise InventoryError(f"label {key} is {shorten(text)!r}", next_step=f"write it as {example}, each card once")
    return tuple(known)


def list_disabled_cards(labels: Mapping[str, str], dialects: Sequence[Dialect]) -> frozenset[str]:
    """Return the names, such as `card3`, of the cards that labels of a node exclude from placement."""
    found = set[str]()
    for dialect in dialects:
        if prefix := dialect.disabled_cards:
            groups = dialect.card_labels.pci_groups if dialect.card_labels else ""
            for key, value in labels.items():
                if prefix in key:
                    name = key.partition(prefix)[2]
                    found.add(name)
                    if value == _WHOLE_GROUP and groups:
                        found |= _find_group(labels, groups, name)
    return frozenset(found)


def read_numa_nodes(labels: Mapping[str, str], key: str) -> tuple[tuple[int, int], ...]:
    """Return the number and NUMA node of each card in a label; invalid entries are omitted."""
    found = list[tuple[int, int]]()
    for part in join_label(labels, key).split("_"):
        node, _, cards = part.partition("-")
        numbers = [parse_number(card) for card in cards.split(".")]
        if (numa := parse_number(node)) is not None:
            found += [(number, numa) for number in numbers if number is not None]
    return tuple(found)


def read_links(labels: Mapping[str, str], key: str, numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the card numbers of each pair of linked cards in a label, which identifies cards by their positions.

    Args:
        labels: the labels of a node.
        key: the key of the label.
        numbers: the numbers of the node's cards.
    """
    ordered, found = sorted(numbers), dict[tuple[int, int], None]()
    for part in join_label(labels, key).split("_"):
        one, _, other = part.partition("-")
        places = [parse_number(end.partition(".")[0]) for end in (one, other)]
        ends = [ordered[place] for place in places if place is not None and place < len(ordered)]
        if len(set(ends)) == len(places):
            found[ends[0], ends[1]] = None
    return tuple(found)


def read_tiles_out(labels: Mapping[str, str], prefixes: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the card number and tile number of each tile that labels of a node disable."""
    found = set[tuple[int, int]]()
    for key in labels:
        for prefix in prefixes:
            card, _, tile = key.partition(prefix)[2].partition("_")
            number, numbered = parse_card_name(card), parse_number(tile.removeprefix(_TILE))
            if number is not None and numbered is not None and tile.startswith(_TILE):
                found.add((number, numbered))
    return tuple(sorted(found))


def find_preferred_card(labels: Mapping[str, str], dialect: Dialect) -> str:
    """Return the name, such as `card3`, of the card that a node label marks as preferred; empty if there is none."""
    suffix = dialect.preferred_card
    return next((value for key, value in sorted(labels.items()) if suffix and key.endswith(suffix)), "")


def _find_group(labels: Mapping[str, str], key: str, name: str) -> set[str]:
    """Return the names of the cards in the PCI group of a card. Groups have the format `0.1_2.3`."""
    groups = ({f"card{number}" for number in group.split(".")} for group in join_label(labels, key).split("_"))
    return next((group for group in groups if name in group), set())
