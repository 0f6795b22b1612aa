from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.request import Kind
from accelkit.node.reconciliation.corrections import Correction, Judged, plan
from accelkit.placement.charges import count_charges


def on(cards, **more):
    """An assignment of two units on each card, as `on("ab")`."""
    return Assignment({"c": tuple(Share(card, 2) for card in cards), **more})


def judged(uid, was, now):
    return Judged(uid, None if was is None else on(was), on(now))


def shown(writes):
    return [(write.uid, charged(write.assignment), write.first) for write in writes]


def charged(assignment):
    return {
        card: charge.memory_bytes for card, charge in count_charges([("c", Kind.APP)], assignment.containers).items()
    }


def test_true_assignments_are_left_alone():
    assert plan([judged("p", "a", "a")], []) == []


def test_a_pod_on_another_card_is_corrected_in_one_write():
    assert plan([judged("p", "a", "b")], []) == [Correction("p", on("b"), first=True)]


def test_a_pod_without_assignment_gets_one():
    assert plan([judged("p", None, "b")], ["b"]) == [Correction("p", on("b"), first=True)]


def test_two_pods_that_swapped_stay_charged_until_both_are_written():
    assert shown(plan([judged("p", "a", "b"), judged("q", "b", "a")], [])) == [
        ("p", {"b": 2, "a": 2}, True),
        ("q", {"a": 2}, True),
        ("p", {"b": 2}, False),
    ]


def test_a_pod_that_took_a_card_somebody_waits_for_is_left_alone_until_then():
    swapped = judged("p", "b", "a")
    assert plan([swapped], ["a"]) == []
    assert shown(plan([swapped, judged("q", "a", "b")], [])) == [
        ("p", {"b": 2, "a": 2}, True),
        ("q", {"b": 2}, True),
        ("p", {"a": 2}, False),
    ]


def test_what_was_left_moving_by_a_run_that_was_cut_off_is_dropped():
    written = on("b", **{MOVING: (Share("a", 2),)})
    assert plan([Judged("p", written, on("b"))], []) == [Correction("p", on("b"), first=False)]


def test_what_is_moving_stays_while_the_other_pod_has_to_wait():
    written = on("b", **{MOVING: (Share("a", 2),)})
    pods = [Judged("p", written, on("b")), judged("q", "b", "a")]
    assert plan(pods, ["a"]) == []


def test_containers_of_one_pod_that_swap_are_written_at_once():
    was = Assignment({"c": (Share("a", 4),), "d": (Share("b", 2),)})
    now = Assignment({"c": (Share("b", 4),), "d": (Share("a", 2),)})
    assert plan([Judged("p", was, now)], []) == [Correction("p", now, first=True)]


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), max_size=8), st.sets(st.sampled_from("abcd"))
)
def test_no_card_ever_has_more_room_in_the_ledger_than_before_or_than_in_the_end(moves, awaited):
    pods = [judged(f"p{number}", *move) for number, move in enumerate(moves)]
    ledger = {pod.uid: pod.written for pod in pods}

    def totals():
        return sum((Counter(charged(assignment)) for assignment in ledger.values()), Counter())

    writes = plan(pods, awaited)
    moments = [totals()]
    for write in writes:
        ledger[write.uid] = write.assignment
        moments.append(totals())
    for moment in moments:
        assert all(moment[card] >= min(moments[0][card], moments[-1][card]) for card in "abcd")
    assert all(
        ledger[pod.uid].containers["c"] in (pod.written.containers["c"], pod.true.containers["c"]) for pod in pods
    )
    # All that can be written was: a second look finds nothing new.
    assert plan([Judged(pod.uid, ledger[pod.uid], pod.true) for pod in pods], awaited) == []
