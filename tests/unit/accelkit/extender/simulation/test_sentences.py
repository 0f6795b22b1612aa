from __future__ import annotations

import pytest

from accelkit.extender.simulation.sentences import describe_card_reason, describe_change, format_exactly
from accelkit.model.card import Card, Health
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest, Kind
from accelkit.placement.card_reasons import CardReason
from accelkit.placement.card_state import CardState
from accelkit.placement.changes.change import Change, ChangeKind

GIB = 2**30
CARDS = {
    "a": Card("a", "v", "m", 16 * GIB, cordoned=True),
    "b": Card("b", "v", "m", 16 * GIB, health=Health.UNHEALTHY, health_reason="XID 79"),
    "c": Card("c", "v", "m", 16 * GIB, health=Health.UNHEALTHY, cordoned=True),
}
ASKED = ContainerRequest("main", Kind.APP, 1, 20 * GIB, 500, model="H200")


def pods(count):
    return tuple(PodRef("d", f"p{number}", f"u{number}") for number in range(count))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            Change(ChangeKind.LESS_MEMORY, "main", before=20 * GIB, after=18 * GIB),
            "2 GiB less memory for container main (18 GiB instead of 20 GiB)",
        ),
        (
            Change(ChangeKind.LESS_MEMORY, "main", before=10 * GIB, after=37 * GIB // 4, on_cards=2),
            "768 MiB less memory for container main on each of its 2 cards (9472 MiB instead of 10 GiB)",
        ),
        (
            Change(ChangeKind.LESS_COMPUTE, "main", before=500, after=333),
            "less compute for container main (33.3 % of a card instead of 50 %)",
        ),
        (Change(ChangeKind.WITHOUT_CONSTRAINT, "main", "numa"), "without the constraint numa for container main"),
        (Change(ChangeKind.WITHOUT_CONSTRAINT, "", "model"), "without the constraint model"),
        (Change(ChangeKind.WITHOUT_CONSTRAINT, "", "min_memory_bytes"), "without the constraint min_memory"),
        (Change(ChangeKind.WITHOUT_CONSTRAINT, "", "allowed"), "without the list of cards that it may have"),
        (Change(ChangeKind.FEWER_CARDS, "main", before=4, after=3), "1 card fewer for container main (3 instead of 4)"),
        (
            Change(ChangeKind.FEWER_CARDS, "main", before=4, after=2),
            "2 cards fewer for container main (2 instead of 4)",
        ),
        (Change(ChangeKind.CARD_BACK, cards=("a",)), "card a uncordoned"),
        (Change(ChangeKind.CARD_BACK, cards=("b", "c")), "card b mended: XID 79 and card c uncordoned and mended"),
        (Change(ChangeKind.PODS_ENDED, pods=pods(1)), "if pod d/p0 ended"),
        (Change(ChangeKind.PODS_ENDED, pods=pods(3)), "if pod d/p0, pod d/p1 and pod d/p2 ended"),
        (
            Change(ChangeKind.PODS_ENDED, pods=pods(20)),
            "if pod d/p0, pod d/p1, pod d/p2, pod d/p3, pod d/p4, pod d/p5 and 14 more ended",
        ),
    ],
)
def test_a_change_in_words(change, sentence):
    assert describe_change(change, CARDS) == sentence


@pytest.mark.parametrize("kind", ChangeKind)
def test_each_kind_of_change_has_words(kind):
    change = Change(kind, "main", "model", 4 * GIB, 2 * GIB, cards=("a",), pods=pods(1))
    sentence = describe_change(change, CARDS, "x" * 1000)
    assert sentence == sentence.strip()
    assert 10 < len(sentence) < 400


@pytest.mark.parametrize(
    ("reason", "sentence"),
    [
        (CardReason.CORDONED, "the card is cordoned"),
        (CardReason.UNHEALTHY, "the card is not healthy: XID 79"),
        (CardReason.MODEL, "its model is m, not H200"),
        (CardReason.NOT_ALLOWED, "the pod's own lists of cards leave it out"),
        (CardReason.IN_USE, "pods hold some of it, and the whole card is asked for"),
        (CardReason.UNKNOWN_MEMORY, "its memory is not known, so that it can only be given whole"),
        (CardReason.MEMORY, "0 of 16 GiB free, 20 GiB asked for"),
        (CardReason.COMPUTE, "12.5 % of its compute free, 50 % asked for"),
    ],
)
def test_a_card_in_words(reason, sentence):
    assert describe_card_reason(reason, CardState(CARDS["b"], -GIB, 125, empty=False), ASKED) == sentence


@pytest.mark.parametrize(
    ("amount", "text"),
    [(GIB, "1 GiB"), (37 * GIB // 4, "9472 MiB"), (5 * 10**9, "5 GB"), (1500, "1500 B"), (0, "0 GiB")],
)
def test_an_amount_that_becomes_a_limit_is_never_rounded(amount, text):
    assert format_exactly(amount) == text
