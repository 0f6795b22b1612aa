import pytest

from accelkit.model.card import Card
from accelkit.model.cordon import apply_cordon, read_cordon
from accelkit.model.keys import CORDON_KEY
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import Node

CARDS = [Card("GPU-a", "v", "m", 1, index=4), Card("GPU-b", "v", "m", 1)]


def node(*, annotation=None, label=None):
    return Node(
        ObjectMeta(
            "n",
            annotations=None if annotation is None else {CORDON_KEY: annotation},
            labels=None if label is None else {CORDON_KEY: label},
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
        ({"annotation": "0"}, []),
        ({"annotation": "card4"}, ["GPU-a"]),
        ({"label": "all"}, ["GPU-a", "GPU-b"]),
        ({"label": "4.1"}, ["GPU-a", "GPU-b"]),
        ({"annotation": "GPU-a.1"}, []),
    ],
)
def test_cordon_selects_cards_by_id_or_number(given, expected):
    assert out(**given) == expected


def test_removed_cordon_makes_card_placeable_again():
    cards = apply_cordon(CARDS, frozenset({"all"}))
    assert all(card.placeable for card in apply_cordon(cards, frozenset()))


def test_cordon_selects_card_by_number_of_driver():
    cards = apply_cordon([Card("a", "v", "m", 1, index=0, minor=3)], frozenset({"card3"}))
    assert [card.cordoned for card in cards] == [True]
    assert not apply_cordon(cards, frozenset({"card0"}))[0].cordoned


def test_cordon_is_read_from_annotation_and_label():
    assert CORDON_KEY == "accelkit.io/cordon"
    assert read_cordon(node()) == frozenset()
    assert read_cordon(node(annotation="a, b.c,", label="d.e,f")) == {"a", "b.c", "d", "e,f"}


def test_empty_cordon_leaves_cards_unchanged():
    assert apply_cordon(CARDS, frozenset()) == tuple(CARDS)
