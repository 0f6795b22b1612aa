"""Cards that an administrator excludes from placement with a label or an annotation on their node.

Both name cards by ID, by number, or by the driver's number (`card3`); `all` names all cards. The annotation separates
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
    """Return the names of cordoned cards in the label and the annotation of a node."""
    words = (node.find_annotation(CORDON_KEY) or "").split(",")
    words += ((node.metadata.labels or {}).get(CORDON_KEY) or "").split(".")
    return frozenset(word.strip() for word in words if word.strip())


def apply_cordon(cards: Sequence[Card], words: frozenset[str]) -> tuple[Card, ...]:
    """Return the cards, with the cards cordoned that `words` name; the position replaces a missing number."""
    if not words and not any(card.cordoned for card in cards):
        return tuple(cards)
    return tuple(
        msgspec.structs.replace(card, cordoned=is_named(card, number, words)) for number, card in enumerate(cards)
    )


def is_named(card: Card, place: int, words: frozenset[str]) -> bool:
    """Return whether words name a card; `place` is used as the number if the card has none."""
    number = place if card.index is None else card.index
    return bool({_ALL, card.id, str(number), f"card{card.number}"} & words)
