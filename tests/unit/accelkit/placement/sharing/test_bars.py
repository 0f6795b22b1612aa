import pytest

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, Kind, PodRequest, PodSelector
from accelkit.placement.card_reasons import CardReason, find_card_reason
from accelkit.placement.card_state import CardState
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import Policy
from accelkit.placement.sharing.bars import NOBODY, Neighbours, Reserved

WEB = PodSelector(("app=web",), "d")
ON = Neighbours(sure=frozenset({WEB}))
MAYBE = Neighbours(possible=frozenset({WEB}))
TRAINING = Reserved("training", "namespace ml (training)")


def state(name, free=16, *, reserved=None, neighbours=NOBODY):
    return CardState(Card(name, "v", "m", 16), free, 1000, free == 16, reserved=reserved, neighbours=neighbours)


def wants(memory=4, **more):
    return ContainerRequest("c", Kind.APP, more.pop("cards", 1), memory, whole=not memory, **more)


def chosen(states, *containers):
    placed = place(states, PodRequest(containers), Policy.BINPACK)
    assert isinstance(placed, Assignment), placed
    return [share.card for shares in placed.containers.values() for share in shares]


def refused(states, *containers):
    placed = place(states, PodRequest(containers), Policy.BINPACK)
    assert isinstance(placed, Misfit), placed
    return placed.reason, placed.detail


def test_only_cards_listed_in_card_ids_are_assigned():
    states = [state("a", 4), state("b"), state("c")]
    assert chosen(states, wants()) == ["a"]
    assert chosen(states, wants(card_ids=frozenset({"b", "c"}))) == ["b"]
    assert chosen(states, wants(0, card_ids=frozenset({"c"}))) == ["c"]
    assert refused(states, wants(card_ids=frozenset("xyzuvw"))) == (MisfitReason.CARD_IDS, "u, v, w, x, …")
    # Of the named one there is not enough, of others there is.
    assert refused(states, wants(5, card_ids=frozenset({"a"}))) == (MisfitReason.CARD_IDS, "a")


def test_misfit_reports_memory_instead_of_rule_when_no_card_has_room():
    states = [state("a", 2), state("b", 2)]
    assert refused(states, wants(card_ids=frozenset({"x"})))[0] is MisfitReason.MEMORY


def test_reserved_card_is_excluded_if_reservation_is_closed_to_request():
    states = [state("a", 4, reserved=TRAINING), state("b", 8)]
    assert chosen(states, wants()) == ["a"]
    assert chosen(states, wants(closed=frozenset({"training"}))) == ["b"]
    assert chosen(states, wants(closed=frozenset({"another"}))) == ["a"]
    full = [state("a", reserved=TRAINING), state("b", 2)]
    assert refused(full, wants(closed=frozenset({"training"}))) == (MisfitReason.RESERVED, "namespace ml (training)")


def test_beside_rule_accepts_only_cards_certainly_held_by_matching_pods():
    states = [state("a", 4), state("b", 8, neighbours=ON), state("c", 9, neighbours=MAYBE)]
    assert chosen(states, wants(beside=WEB)) == ["b"]
    assert refused(states, wants(9, beside=WEB)) == (MisfitReason.BESIDE, "app=web")


def test_apart_rule_accepts_only_cards_certainly_free_of_matching_pods():
    states = [state("a", 4, neighbours=ON), state("b", 8, neighbours=MAYBE), state("c", 9)]
    assert chosen(states, wants(apart=WEB)) == ["c"]
    assert refused(states[:2], wants(apart=WEB)) == (MisfitReason.APART, "app=web")


def test_beside_and_apart_rules_apply_per_container():
    states = [state("a", neighbours=ON), state("b")]
    one, other = wants(apart=WEB), ContainerRequest("e", Kind.APP, 1, 4, beside=WEB)
    assert chosen(states, one, other) == ["b", "a"]


def test_identical_cards_are_distinguished_by_sharing_rules():
    # Were a and b taken for alike, the second container would not be tried on b.
    states = [state("a"), state("b", neighbours=ON)]
    two = ContainerRequest("e", Kind.APP, 1, 16, beside=WEB)
    assert chosen(states, wants(16), two) == ["a", "b"]
    assert chosen(states[::-1], wants(16), two) == ["a", "b"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"card_ids": frozenset({"b"})}, CardReason.CARD_IDS),
        ({"closed": frozenset({"training"})}, CardReason.RESERVED),
        ({"beside": PodSelector(("app=db",), "d")}, CardReason.BESIDE),
        ({"apart": WEB}, CardReason.APART),
        ({}, None),
    ],
)
def test_card_reason_names_rule_that_excludes_card(more, reason):
    found = find_card_reason(state("a", reserved=TRAINING, neighbours=ON), wants(**more))
    assert found is reason
