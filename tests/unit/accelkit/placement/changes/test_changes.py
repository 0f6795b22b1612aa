"""Which changes are found on a node, and in which order."""

import pytest
from searched_nodes import node, search, together, wants
from support.pods import make_ref

from accelkit.model.card import Card, Health, Link
from accelkit.model.request import Kind
from accelkit.placement.budget import Budget
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.search import search_changes
from accelkit.placement.changes.situation import ShareHolder, Situation, Terms
from accelkit.placement.policies import Policy

A, B = Card("a", "v", "m", 16, index=0), Card("b", "v", "m", 16, index=1)


def card(name, memory=16, **more):
    return Card(name, "v", more.pop("model", "m"), memory, **more)


def kinds(changes):
    return [change.kind.value for change in changes]


def names(change):
    return [each.name for each in change.pods]


def test_less_memory_is_as_little_less_as_the_freest_card_needs():
    change, *others = search(node([A, B], {"x": {"a": 6}, "y": {"b": 10}}), wants(12))
    assert (change.kind, change.container, change.before, change.after) == (ChangeKind.LESS_MEMORY, "c", 12, 10)
    assert (change.taken, change.proven) == (("a",), True)
    assert kinds(others) == ["pods_ended"]


def test_less_memory_goes_by_whole_units():
    situation = node([card("a", 100)], {"x": {"a": 45}})
    assert search(situation, wants(60), terms=Terms((10,)))[0].after == 50
    # No multiple of that unit is asked for, so the next one counts, or else each byte.
    assert search(situation, wants(62), terms=Terms((10, 2)))[0].after == 54
    assert search(situation, wants(63), terms=Terms((10, 2)))[0].after == 55


@pytest.mark.parametrize(
    ("held", "asked", "found"),
    [(8, 16, ["less_memory", "pods_ended"]), (12, 16, ["pods_ended", "less_memory"]), (16, 8, ["pods_ended"])],
    ids=["half", "more than half", "all of it"],
)
def test_what_takes_more_than_half_comes_last(held, asked, found):
    changes = search(node([A], {"x": {"a": held}}), wants(asked))
    assert kinds(changes) == found
    assert sorted(changes, key=lambda change: change.order) == changes


def test_less_compute():
    change = search(node([A, B], compute=400), wants(4, compute=500))[0]
    assert (change.kind, change.before, change.after) == (ChangeKind.LESS_COMPUTE, 500, 400)
    assert search(node([A, B], compute=400), wants(4, compute=900))[-1].after == 400
    assert search(node([A, B], compute=0), wants(4, compute=900))[-1].after == 0
    # Who asks for compute alone asks for some.
    assert search(node([A, B], compute=0), wants(compute=900)) == []


def test_far_fewer_cards_come_after_the_pods_that_would_have_to_end():
    situation = node([A, B, card("c"), card("d")], {"x": {"a": 1}, "y": {"b": 1}, "z": {"c": 1}})
    changes = search(situation, wants(cards=4))
    assert [(change.kind, change.after) for change in changes] == [
        (ChangeKind.PODS_ENDED, 0),
        (ChangeKind.FEWER_CARDS, 1),
    ]
    assert names(changes[0]) == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("asked", "constraint"),
    [
        ({"model": "n"}, "model"),
        ({"numa": "single"}, "numa"),
        ({"link": "any"}, "link"),
        ({"allowed": frozenset({0})}, "allowed"),
        ({"denied": frozenset({0})}, "denied"),
    ],
)
def test_a_constraint_that_can_be_left_out_is_named(asked, constraint):
    situation = node([card("a", index=0, numa=0), card("b", index=1, numa=1)])
    change = search(situation, wants(4, cards=2, **asked))[0]
    assert (change.kind, change.constraint, change.container) == (
        *(ChangeKind.WITHOUT_CONSTRAINT, constraint),
        # Lists of cards are said once for all containers.
        "" if constraint in {"allowed", "denied"} else "c",
    )


def test_a_link_that_one_of_two_constraints_asks_for_is_left_out_and_the_other_stays():
    cards = [card("a", numa=0, links=(Link("c", "x"),)), card("b", numa=0), card("c", numa=1)]
    change = search(node(cards), wants(4, cards=2, link="x", numa="single"))[0]
    assert (change.constraint, sorted(change.taken)) == ("numa", ["a", "c"])


def test_a_constraint_of_several_containers_is_left_out_of_one_if_that_suffices_else_of_all():
    situation = node([A, card("b", model="n")])
    request = together(wants(10, name="p", model="m"), wants(10, name="q", model="m"))
    assert search(situation, request)[1].container == "p"
    nothing = node([card("b", 40, model="n")])
    changes = search(nothing, request)
    assert [(change.constraint, change.container) for change in changes] == [("model", "")]


def test_what_a_dialect_prescribes_cannot_be_left_out():
    request = together(wants(10, name="p"), wants(10, name="q", same_card_as="p"))
    changes = search(node([A, B]), request)
    assert ("same_card_as", "q") in [(change.constraint, change.container) for change in changes]
    fixed = search(node([A, B]), request, terms=Terms((1,), frozenset({"same_card_as"})))
    assert kinds(fixed) == ["less_memory"]


def test_a_card_out_of_placement_is_put_back():
    out = [card("a", cordoned=True), card("b", health=Health.UNHEALTHY)]
    change = search(node([*out, card("c")], {"x": {"c": 16}}), wants(8))[0]
    assert (change.kind, change.cards, change.taken, change.proven) == (ChangeKind.CARD_BACK, ("a",), ("a",), True)
    both = search(node(out), wants(cards=2))
    assert [(change.cards, change.proven) for change in both] == [(("a", "b"), True)]
    more = search(node([*out, card("c", cordoned=True)]), wants(cards=2))
    # Two would do.
    assert [(change.cards, change.proven) for change in more] == [(("a", "b", "c"), False)]


def test_where_more_have_to_end_the_card_is_chosen_that_the_fewest_hold():
    held = {f"p{number}": {"a": 2} for number in range(8)} | {f"q{number}": {"b": 4} for number in range(4)}
    (change,) = [each for each in search(node([A, B], held), wants()) if each.kind is ChangeKind.PODS_ENDED]
    assert (names(change), change.proven) == (["q0", "q1", "q2", "q3"], False)


def test_a_pod_whose_cards_are_not_known_may_have_to_end():
    unknown = ShareHolder(make_ref("lost"), None, 32)
    full, empty = node([A], {"x": {"a": 16}}).states, node([A]).states
    situation = Situation(full, (unknown,), lambda uids: empty if uids else full)
    assert names(search(situation, wants(8))[0]) == ["lost"]


def test_pods_that_would_not_be_enough_are_not_named():
    assert search(node([A], {"x": {"a": 4}}), wants(cards=2)) == []
    assert kinds(search(node([A], {"x": {"a": 4}}), wants(20))) == ["less_memory"]


def test_an_init_container_hands_its_memory_on():
    request = together(wants(12, name="i", kind=Kind.INIT), wants(14, name="c"))
    changes = search(node([A], {"x": {"a": 4}}), request)
    assert (changes[0].container, changes[0].after, kinds(changes)) == ("c", 12, ["less_memory", "pods_ended"])


def test_a_pod_that_fits_nowhere_whatever_is_changed_has_no_change():
    assert search(node([]), wants(4)) == []
    assert search(node([card("a", None)]), wants(4)) == []


def test_the_search_ends_where_its_budget_does():
    held = {f"p{number}": {"a": 1} for number in range(10)}
    budget = Budget(2)
    found = search_changes(node([A], held), wants(16), Policy.BINPACK, Terms((1,)), budget)
    assert list(found) == [None]
    assert budget.is_spent()


def test_what_is_found_before_the_budget_ends_is_not_said_to_be_the_smallest():
    request = together(wants(9, name="p"), wants(10, name="q"), wants(9, name="r"))
    best = search(node([A, B]), request)[0]
    seen = set()
    for steps in range(2, 40, 2):
        for change in search(node([A, B]), request, steps=steps):
            assert change == best or not change.proven
            seen.add(change.proven)
    assert seen == {True, False}


def test_between_two_questions_others_have_their_turn():
    held = {f"p{number}": {"a": 1} for number in range(10)}
    turns = list(search_changes(node([A], held), wants(16), Policy.BINPACK, Terms((1,)), Budget(10_000)))
    assert turns.count(None) > 10


def test_a_question_that_is_a_puzzle_is_left_after_some_steps():
    states = node([card(str(number), 80 + number) for number in range(8)])
    request = together(*(wants(70, name=str(number)) for number in range(19)))
    budget = Budget(100_000)
    before, most = budget.steps, 0
    for _ in search_changes(states, request, Policy.BINPACK, Terms((1,)), budget):
        most, before = max(most, before - budget.steps), budget.steps
    assert 0 < most <= 210


def test_changes_of_all_nodes_are_compared_by_kind_and_size():
    changes = [
        Change(ChangeKind.LESS_MEMORY, before=10, after=8, size=(2, 0)),
        Change(ChangeKind.LESS_MEMORY, before=10, after=5, size=(5, 0)),
        Change(ChangeKind.LESS_COMPUTE, before=10, after=9, size=(1, 0)),
        Change(ChangeKind.WITHOUT_CONSTRAINT),
        Change(ChangeKind.FEWER_CARDS, before=4, after=2),
        Change(ChangeKind.CARD_BACK),
        Change(ChangeKind.PODS_ENDED, size=(1, 16)),
        Change(ChangeKind.PODS_ENDED, size=(2, 2)),
        Change(ChangeKind.LESS_MEMORY, before=10, after=4, size=(6, 0)),
        Change(ChangeKind.FEWER_CARDS, before=4, after=1),
        Change(ChangeKind.UNIT),
        Change(ChangeKind.INVENTORY),
        Change(ChangeKind.SHARED),
    ]
    shuffled = changes[::2] + changes[1::2]
    assert sorted(shuffled, key=lambda change: change.order) == changes
