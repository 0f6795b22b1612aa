"""Cards that an administrator excludes from placement with a label or annotation on the node.

The label and the annotation list cards by ID, by number, or by the driver's number (`card3`); `all` selects all cards.
In the annotation, the names are separated by commas. In the label, they are separated by dots, because the value of a
label cannot contain a comma: `accelkit.io/cordon: "0,GPU-1b2c"` and `accelkit.io/cordon: "0.3"`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from accelkit.model.card import Card
from accelkit.model.keys import CORDON_KEY
from accelkit.model.pod import Node

_ALL = "all"


def read_cordon(node: Node) -> frozenset[str]:
    """Return the names of the cordoned cards from the label and the annotation of a node."""
    words = (node.find_annotation(CORDON_KEY) or "").split(",")
    words += ((node.metadata.labels or {}).get(CORDON_KEY) or "").split(".")
    return frozenset(word.strip() for word in words if word.strip())


def apply_cordon(cards: Sequence[Card], words: frozenset[str]) -> tuple[Card, ...]:
    """Return a copy of the cards, with the cards that `words` lists marked as cordoned.

    If a card has no number, its position is used.
    """
    if not words and not any(card.cordoned for card in cards):
        return tuple(cards)
    return tuple(
        msgspec.structs.replace(card, cordoned=is_named(card, number, words)) for number, card in enumerate(cards)
    )


def is_named(card: Card, place: int, words: frozenset[str]) -> bool:
    """Return whether `words` lists a card; `place` is used if the card has no number."""
    number = place if card.index is None else card.index
    return bool({_ALL, card.id, str(number), f"card{card.number}"} & words)
