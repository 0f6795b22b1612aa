"""Cards that somebody took out of placement, by a label or an annotation on their node, for as long as that stays.

Both name cards by id, by number, as `card3` by the driver's number, or all of them by `all`. The annotation separates
them by commas, the label by dots, since a label takes no comma: `accelkit.io/cordon: "0,GPU-1b2c"` and
`accelkit.io/cordon: "0.3"`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from accelkit.model.card import Card
from accelkit.model.keys import CORDON_KEY
from accelkit.model.pod import Node

_ALL = "all"


def read_cordon(node: Node) -> frozenset[str]:
    """Return the words by which a node's cards are cordoned; empty where none is."""
    words = (node.find_annotation(CORDON_KEY) or "").split(",")
    words += ((node.metadata.labels or {}).get(CORDON_KEY) or "").split(".")
    return frozenset(word.strip() for word in words if word.strip())


def apply_cordon(cards: Sequence[Card], words: frozenset[str]) -> tuple[Card, ...]:
    """Return the cards with what `words` say of each; a card without a number goes by its place."""
    if not words and not any(card.cordoned for card in cards):
        return tuple(cards)
    return tuple(
        msgspec.structs.replace(card, cordoned=is_named(card, number, words)) for number, card in enumerate(cards)
    )


def is_named(card: Card, place: int, words: frozenset[str]) -> bool:
    """Return whether words name a card; `place` is its number where it has none."""
    number = place if card.index is None else card.index
    return bool({_ALL, card.id, str(number), f"card{card.number}"} & words)
