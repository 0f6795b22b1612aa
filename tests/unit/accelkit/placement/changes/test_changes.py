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


def test_less_memory_change_keeps_largest_amount_that_fits():
    change, *others = search(node([A, B], {"x": {"a": 6}, "y": {"b": 10}}), wants(12))
    assert (change.kind, change.container, change.before, change.after) == (ChangeKind.LESS_MEMORY, "c", 12, 10)
    assert (change.taken, change.proven) == (("a",), True)
    assert kinds(others) == ["pods_ended"]


def test_less_memory_change_rounds_down_to_whole_units():
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
def test_change_that_removes_more_than_half_of_request_is_listed_last(held, asked, found):
    changes = search(node([A], {"x": {"a": held}}), wants(asked))
    assert kinds(changes) == found
    assert sorted(changes, key=lambda change: change.order) == changes


def test_less_compute_change_reduces_request_to_free_compute():
    change = search(node([A, B], compute=400), wants(4, compute=500))[0]
    assert (change.kind, change.before, change.after) == (ChangeKind.LESS_COMPUTE, 500, 400)
    assert search(node([A, B], compute=400), wants(4, compute=900))[-1].after == 400
    assert search(node([A, B], compute=0), wants(4, compute=900))[-1].after == 0
    # Who asks for compute alone asks for some.
    assert search(node([A, B], compute=0), wants(compute=900)) == []


def test_pods_ended_change_precedes_large_reduction_of_cards():
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
def test_change_names_constraint_that_can_be_removed(asked, constraint):
    situation = node([card("a", index=0, numa=0), card("b", index=1, numa=1)])
    change = search(situation, wants(4, cards=2, **asked))[0]
    assert (change.kind, change.constraint, change.container) == (
        *(ChangeKind.WITHOUT_CONSTRAINT, constraint),
        # Lists of cards are said once for all containers.
        "" if constraint in {"allowed", "denied"} else "c",
    )


def test_numa_constraint_is_removed_while_link_constraint_is_kept():
    cards = [card("a", numa=0, links=(Link("c", "x"),)), card("b", numa=0), card("c", numa=1)]
    change = search(node(cards), wants(4, cards=2, link="x", numa="single"))[0]
    assert (change.constraint, sorted(change.taken)) == ("numa", ["a", "c"])


def test_constraint_is_removed_from_one_container_if_sufficient_else_from_all():
    situation = node([A, card("b", model="n")])
    request = together(wants(10, name="p", model="m"), wants(10, name="q", model="m"))
    assert search(situation, request)[1].container == "p"
    nothing = node([card("b", 40, model="n")])
    changes = search(nothing, request)
    assert [(change.constraint, change.container) for change in changes] == [("model", "")]


def test_constraint_prescribed_by_dialect_is_not_removed():
    request = together(wants(10, name="p"), wants(10, name="q", same_card_as="p"))
    changes = search(node([A, B]), request)
    assert ("same_card_as", "q") in [(change.constraint, change.container) for change in changes]
    fixed = search(node([A, B]), request, terms=Terms((1,), frozenset({"same_card_as"})))
    assert kinds(fixed) == ["less_memory"]


def test_change_returns_cordoned_or_unhealthy_card_to_placement():
    out = [card("a", cordoned=True), card("b", health=Health.UNHEALTHY)]
    change = search(node([*out, card("c")], {"x": {"c": 16}}), wants(8))[0]
    assert (change.kind, change.cards, change.taken, change.proven) == (ChangeKind.CARD_BACK, ("a",), ("a",), True)
    both = search(node(out), wants(cards=2))
    assert [(change.cards, change.proven) for change in both] == [(("a", "b"), True)]
    more = search(node([*out, card("c", cordoned=True)]), wants(cards=2))
    # Two would do.
    assert [(change.cards, change.proven) for change in more] == [(("a", "b", "c"), False)]


def test_unproven_pods_ended_change_selects_card_with_fewest_pods():
    held = {f"p{number}": {"a": 2} for number in range(8)} | {f"q{number}": {"b": 4} for number in range(4)}
    (change,) = [each for each in search(node([A, B], held), wants()) if each.kind is ChangeKind.PODS_ENDED]
    assert (names(change), change.proven) == (["q0", "q1", "q2", "q3"], False)


def test_pod_with_unknown_cards_is_listed_in_pods_ended_change():
    unknown = ShareHolder(make_ref("lost"), None, 32)
    full, empty = node([A], {"x": {"a": 16}}).states, node([A]).states
    situation = Situation(full, (unknown,), lambda uids: empty if uids else full)
    assert names(search(situation, wants(8))[0]) == ["lost"]


def test_pods_are_not_listed_if_their_end_would_not_suffice():
    assert search(node([A], {"x": {"a": 4}}), wants(cards=2)) == []
    assert kinds(search(node([A], {"x": {"a": 4}}), wants(20))) == ["less_memory"]


def test_less_memory_change_accounts_for_memory_of_init_container():
    request = together(wants(12, name="i", kind=Kind.INIT), wants(14, name="c"))
    changes = search(node([A], {"x": {"a": 4}}), request)
    assert (changes[0].container, changes[0].after, kinds(changes)) == ("c", 12, ["less_memory", "pods_ended"])


def test_pod_that_can_never_fit_has_no_changes():
    assert search(node([]), wants(4)) == []
    assert search(node([card("a", None)]), wants(4)) == []


def test_search_stops_when_budget_is_spent():
    held = {f"p{number}": {"a": 1} for number in range(10)}
    budget = Budget(2)
    found = search_changes(node([A], held), wants(16), Policy.BINPACK, Terms((1,)), budget)
    assert list(found) == [None]
    assert budget.is_spent()


def test_only_smallest_change_is_marked_proven_when_budget_is_limited():
    request = together(wants(9, name="p"), wants(10, name="q"), wants(9, name="r"))
    best = search(node([A, B]), request)[0]
    seen = set()
    for steps in range(2, 40, 2):
        for change in search(node([A, B]), request, steps=steps):
            assert change == best or not change.proven
            seen.add(change.proven)
    assert seen == {True, False}


def test_search_yields_control_between_placements():
    held = {f"p{number}": {"a": 1} for number in range(10)}
    turns = list(search_changes(node([A], held), wants(16), Policy.BINPACK, Terms((1,)), Budget(10_000)))
    assert turns.count(None) > 10


def test_search_yields_at_least_every_210_steps_for_hard_placement():
    states = node([card(str(number), 80 + number) for number in range(8)])
    request = together(*(wants(70, name=str(number)) for number in range(19)))
    budget = Budget(100_000)
    before, most = budget.steps, 0
    for _ in search_changes(states, request, Policy.BINPACK, Terms((1,)), budget):
        most, before = max(most, before - budget.steps), budget.steps
    assert 0 < most <= 210


def test_changes_are_sorted_by_kind_then_size():
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
