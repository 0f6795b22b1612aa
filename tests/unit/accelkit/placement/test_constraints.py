import pytest
from support.requests import build_request

from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card, Link
from accelkit.model.request import CardGroup, ContainerRequest, Kind, Near, PodRequest
from accelkit.placement.constraints import find_broken_constraints
from accelkit.placement.topology.links import find_links

CARDS = {
    "a": Card("a", "v", "big", 16, numa=0, links=(Link("b", "NVLink"),)),
    "b": Card("b", "v", "big", 16, numa=0),
    "c": Card("c", "v", "small", 16, numa=1),
    "d": Card("d", "v", "small", 16),
}


def check(held, **set_request):
    container = ContainerRequest("c", Kind.APP, **{"cards": len(held), "memory_bytes": 1, **set_request})
    return find_broken_constraints(
        PodRequest((container,)), Assignment({"c": tuple(Share(card, 1) for card in held)}), CARDS
    )


def test_satisfied_constraints_are_not_reported():
    assert check("ab", model="big", numa="single", link="NVLink") == ()
    assert check("ba", link="any") == ()


def test_each_broken_constraint_is_reported():
    assert check("ac", cards=1) == ("container c has 2 cards instead of 1",)
    assert check("ac", model="big") == ("container c has cards of a model other than big",)
    assert check("ac", numa="single") == ("container c has cards on several NUMA nodes",)
    assert check("abc", link="any") == ("container c has cards without a link between them",)
    assert check("ab", link="XGMI") == ("container c has cards without a link between them",)
    assert check("az", link="any") == ("container c has cards without a link between them",)
    for unknown in ("d", "za"):
        assert check(unknown, numa="single") == ("container c has cards on several NUMA nodes",)
    assert check("z", model="big") == ("container c has cards of a model other than big",)


def test_cards_below_requested_minimum_memory_are_reported():
    assert check("ab", min_memory_bytes=16) == ()
    assert check("az", min_memory_bytes=17) == ("container c has cards with less memory than 17 B",)
    assert check("z", min_memory_bytes=1) == ("container c has cards with less memory than 1 B",)


@pytest.mark.parametrize(
    ("held", "groups", "holds"),
    [
        ("ab", [CardGroup(Near.SWITCH, (16, 16))], True),
        ("ab", [CardGroup(Near.SWITCH, (17, 16))], False),
        ("ac", [CardGroup(Near.SWITCH, (0, 0))], False),
        ("ac", [CardGroup(Near.ANY, (0, 0))], True),
        ("cba", [CardGroup(Near.SWITCH, (0, 0)), CardGroup(Near.ANY, (0,))], True),
        ("cda", [CardGroup(Near.SWITCH, (0, 0)), CardGroup(Near.ANY, (0,))], False),
        ("az", [CardGroup(Near.ANY, (0, 0))], False),
        ("aa", [CardGroup(Near.ANY, (0, 0))], False),
    ],
)
def test_cards_that_violate_groups_are_reported(held, groups, holds):
    links = find_links(tuple(CARDS.values()), ("XSCC", "SXCC", "CCXC", "CCCX"))
    container = ContainerRequest("c", Kind.APP, len(held), whole=True, groups=tuple(groups))
    assignment = Assignment({"c": tuple(Share(card, 1, whole=True) for card in held)})
    found = find_broken_constraints(PodRequest((container,)), assignment, CARDS, links)
    assert found == (() if holds else ("container c has cards that are too far apart or too small for its groups",))
    assert find_broken_constraints(PodRequest((container,)), assignment, CARDS) == ()


def test_container_outside_cards_of_its_same_card_as_container_is_reported():
    other = ContainerRequest("o", Kind.APP, 1, 1)
    container = ContainerRequest("c", Kind.APP, 1, 1, same_card_as="o")
    request = PodRequest((other, container))
    apart = Assignment({"o": (Share("a", 1),), "c": (Share("b", 1),)})
    assert find_broken_constraints(request, apart, CARDS) == ("container c does not use the cards of container o",)
    assert find_broken_constraints(request, Assignment({"o": (Share("a", 1),), "c": (Share("a", 1),)}), CARDS) == ()


def test_container_without_cards_breaks_no_constraint():
    assert check("", cards=2, model="big", numa="single", link="any", same_card_as="o") == ()


def test_same_card_as_accepts_subset_of_cards_and_target_without_cards():
    request = build_request(1, same_card_as="o")
    some = Assignment({"o": (Share("a", 1), Share("b", 1)), "c": (Share("b", 1),)})
    assert find_broken_constraints(request, some, CARDS) == ()
    assert find_broken_constraints(request, Assignment({"c": (Share("b", 1),)}), CARDS) == ()


def test_every_constraint_of_every_container_is_checked():
    set_request = {"model": "small", "numa": "single", "link": "XGMI"}
    request = PodRequest(tuple(ContainerRequest(name, Kind.APP, 3, 1, **set_request) for name in "cd"))
    held = tuple(Share(card, 1) for card in "ad")
    sentences = ("2 cards instead of 3", "a model other than small", "several NUMA nodes", "without a link")
    found = find_broken_constraints(request, Assignment(dict.fromkeys("cd", held)), CARDS)
    assert len(found) == 8
    for name, part in (("c", found[:4]), ("d", found[4:])):
        for sentence, expected in zip(part, sentences, strict=True):
            assert sentence.startswith(f"container {name} has ")
            assert expected in sentence
