from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.request import Kind
from accelkit.node.reconciliation.uncounted import Account, count_uncounted

INIT_AND_APP = [("init", Kind.INIT), ("c", Kind.APP)]


def on(card, amount=2, **more):
    return Assignment({"c": (Share(card, amount),), **more})


def account(written, observed):
    return Account([("c", Kind.APP)], written, observed)


def test_assigned_amounts_are_counted():
    assert count_uncounted([account(on("a"), on("a"))]) == ()


def test_amounts_on_other_cards_than_assigned_are_uncounted():
    assert count_uncounted([account(on("a"), on("b", 3)), account(on("c"), on("b", 4))]) == (Share("b", 7),)


def test_pods_that_swapped_count_for_each_other():
    assert count_uncounted([account(on("a"), on("b")), account(on("b"), on("a", 3))]) == (Share("a", 1),)


def test_a_pod_that_waits_will_take_the_place_of_the_one_that_took_its_own():
    assert count_uncounted([account(on("a"), on("b")), account(on("b"), None)]) == ()


def test_amounts_kept_for_another_pod_are_counted():
    assert count_uncounted([account(on("a"), on("b")), account(on("a", **{MOVING: (Share("b", 2),)}), on("a"))]) == ()


def test_a_pod_without_an_assignment_is_counted_everywhere_by_the_ledger():
    assert count_uncounted([account(None, on("b"))]) == ()


def test_a_whole_card_and_compute_count():
    whole = Assignment({"c": (Share("b", 16, 1000, whole=True),)})
    assert count_uncounted([account(on("a"), whole)]) == (Share("b", 16, 1000, whole=True),)
    other = Assignment({"c": (Share("b", 15, 1000, whole=True),)})
    assert count_uncounted([account(other, whole)]) == ()


def test_amounts_that_an_init_container_passes_on_count_once():
    written = Assignment({"init": (Share("a", 8),), "c": (Share("a", 4),)})
    observed = Assignment({"init": (Share("b", 8),), "c": (Share("b", 4),)})
    assert count_uncounted([Account(INIT_AND_APP, written, observed)]) == (Share("b", 8),)
