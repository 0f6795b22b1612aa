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
ASKED = ContainerRequest("main", Kind.APP, 1, 20 * GIB, 500, model="H200", min_memory_bytes=80 * GIB)


def pods(count):
    return tuple(PodRef("d", f"p{number}", f"u{number}") for number in range(count))


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (Change(ChangeKind.LESS_MEMORY, "main", before=20 * GIB, after=18 * GIB), "2 GiB less memory"),
        (
            Change(ChangeKind.LESS_MEMORY, "main", before=10 * GIB, after=37 * GIB // 4, on_cards=2),
            "each of its 2 cards (9472 MiB instead of 10 GiB)",
        ),
        (Change(ChangeKind.LESS_COMPUTE, "main", before=500, after=333), "33.3 % of a card instead of 50 %"),
        (Change(ChangeKind.WITHOUT_CONSTRAINT, "", "min_memory_bytes"), "constraint min_memory"),
        (Change(ChangeKind.FEWER_CARDS, "main", before=4, after=3), "1 fewer card for container main (3 instead of 4)"),
        (Change(ChangeKind.CARD_BACK, cards=("b", "c")), "card b repaired: XID 79 and card c uncordoned and repaired"),
        (Change(ChangeKind.PODS_ENDED, pods=pods(20)), "pod d/p4, pod d/p5 and 14 more"),
    ],
)
def test_change_description_contains_amounts_cards_and_pods(change, facts):
    assert facts in describe_change(change, CARDS)


@pytest.mark.parametrize("kind", ChangeKind)
def test_every_change_kind_has_a_description(kind):
    change = Change(kind, "main", "model", 4 * GIB, 2 * GIB, cards=("a",), pods=pods(1))
    sentence = describe_change(change, CARDS, "x" * 1000)
    assert sentence == sentence.strip()
    assert 10 < len(sentence) < 400


@pytest.mark.parametrize(
    ("reason", "facts"),
    [
        (CardReason.UNHEALTHY, "XID 79"),
        (CardReason.MODEL, "m, not H200"),
        (CardReason.CARD_MEMORY, "its memory is 16 GiB, and the pod requests cards of at least 80 GiB"),
        (CardReason.MEMORY, "0 of 16 GiB free, 20 GiB"),
        (CardReason.COMPUTE, "12.5 % of its compute free, 50 %"),
    ],
)
def test_card_reason_description_contains_its_values(reason, facts):
    assert facts in describe_card_reason(reason, CardState(CARDS["b"], -GIB, 125, empty=False), ASKED)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(GIB, "1 GiB"), (37 * GIB // 4, "9472 MiB"), (5 * 10**9, "5 GB"), (1500, "1500 B"), (0, "0 GiB")],
)
def test_exact_amount_format_never_rounds(amount, text):
    assert format_exactly(amount) == text
