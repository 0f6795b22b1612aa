"""Cards that an administrator takes out of placement with a label or an annotation on their node.

Both name cards by ID, by number, by the driver's number (`card3`), or all of them (`all`). The annotation separates
the names with commas. The label separates them with dots, because the value of a label cannot contain a comma:
`accelkit.io/cordon: "0,GPU-1b2c"` and `accelkit.io/cordon: "0.3"`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from accelkit.model.card import Card
from accelkit.model.keys import CORDON_KEY
from accelkit.model.pod import Node

_ALL = "all"


def read_cordon(node: Node) -> frozenset[str]:
    """Return the names by which cards of a node are cordoned."""
    words = (node.find_annotation(CORDON_KEY) or "").split(",")
    words += ((node.metadata.labels or {}).get(CORDON_KEY) or "").split(".")
    return frozenset(word.strip() for word in words if word.strip())


def apply_cordon(cards: Sequence[Card], words: frozenset[str]) -> tuple[Card, ...]:
    """Return the cards, cordoned where `words` name them; a card without a number has the number of its position."""
    if not words and not any(card.cordoned for card in cards):
        return tuple(cards)
    return tuple(
        msgspec.structs.replace(card, cordoned=is_named(card, number, words)) for number, card in enumerate(cards)
    )


def is_named(card: Card, place: int, words: frozenset[str]) -> bool:
    """Return whether words name a card; `place` is used as the number if it has none."""
    number = place if card.index is None else card.index
    return bool({_ALL, card.id, str(number), f"card{card.number}"} & words)
