from __future__ import annotations

import pytest

from accelkit.model.card import Card
from accelkit.model.cordon import CORDON, apply_cordon, read_cordon
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Node

CARDS = [Card("GPU-a", "v", "m", 1, index=4), Card("GPU-b", "v", "m", 1)]


def node(*, annotation=None, label=None):
    return Node(
        ObjectMeta(
            "n",
            annotations=None if annotation is None else {CORDON: annotation},
            labels=None if label is None else {CORDON: label},
        )
    )


def out(**given):
    return [card.id for card in apply_cordon(CARDS, read_cordon(node(**given))) if not card.placeable]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"annotation": " GPU-b , 4"}, ["GPU-a", "GPU-b"]),
        ({"annotation": "1"}, ["GPU-b"]),
        ({"annotation": "all"}, ["GPU-a", "GPU-b"]),
        ({"label": "4.7"}, ["GPU-a"]),
        ({"label": "1", "annotation": "GPU-a"}, ["GPU-a", "GPU-b"]),
        ({"annotation": "", "label": ""}, []),
        ({"annotation": "GPU-zzz"}, []),
    ],
)
def test_cards_are_named_by_id_or_number(given, expected):
    assert out(**given) == expected


def test_what_is_not_cordoned_any_more_is_placeable_again():
    cards = apply_cordon(CARDS, frozenset({"all"}))
    assert all(card.placeable for card in apply_cordon(cards, frozenset()))
