from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.request import Kind
from accelkit.node.reconciliation.uncounted import Account, count_uncounted

INIT_AND_APP = [("init", Kind.INIT), ("c", Kind.APP)]


def on(card, amount=2, **more):
    return Assignment({"c": (Share(card, amount),), **more})


def account(written, observed):
    return Account([("c", Kind.APP)], written, observed)


def test_amounts_on_assigned_cards_are_not_uncounted():
    assert count_uncounted([account(on("a"), on("a"))]) == ()


def test_amounts_on_other_cards_than_assigned_are_uncounted():
    assert count_uncounted([account(on("a"), on("b", 3)), account(on("c"), on("b", 4))]) == (Share("b", 7),)


def test_amounts_of_swapped_pods_offset_each_other():
    assert count_uncounted([account(on("a"), on("b")), account(on("b"), on("a", 3))]) == (Share("a", 1),)


def test_pending_pod_covers_amounts_on_its_assigned_card():
    assert count_uncounted([account(on("a"), on("b")), account(on("b"), None)]) == ()


def test_moving_shares_cover_amounts_of_another_pod():
    assert count_uncounted([account(on("a"), on("b")), account(on("a", **{MOVING: (Share("b", 2),)}), on("a"))]) == ()


def test_amounts_of_pod_without_assignment_are_not_uncounted():
    assert count_uncounted([account(None, on("b"))]) == ()


def test_whole_card_and_compute_can_be_uncounted():
    whole = Assignment({"c": (Share("b", 16, 1000, whole=True),)})
    assert count_uncounted([account(on("a"), whole)]) == (Share("b", 16, 1000, whole=True),)
    other = Assignment({"c": (Share("b", 15, 1000, whole=True),)})
    assert count_uncounted([account(other, whole)]) == ()


def test_amounts_passed_on_by_init_container_count_once():
    written = Assignment({"init": (Share("a", 8),), "c": (Share("a", 4),)})
    observed = Assignment({"init": (Share("b", 8),), "c": (Share("b", 4),)})
    assert count_uncounted([Account(INIT_AND_APP, written, observed)]) == (Share("b", 8),)
