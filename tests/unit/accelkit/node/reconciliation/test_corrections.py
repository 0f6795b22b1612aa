from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.request import Kind
from accelkit.node.reconciliation.corrections import Correction, ObservedPod, plan
from accelkit.placement.charges import count_charges


def on(cards, **more):
    """An assignment of two units on each card, as `on("ab")`."""
    return Assignment({"c": tuple(Share(card, 2) for card in cards), **more})


def observed(uid, was, now):
    return ObservedPod(uid, None if was is None else on(was), on(now))


def describe(waves):
    return [[(write.uid, charged(write.assignment), write.first) for write in wave] for wave in waves]


def charged(assignment):
    return {
        card: charge.memory_bytes for card, charge in count_charges([("c", Kind.APP)], assignment.containers).items()
    }


SWAPPED = observed("p", "b", "a")
MOVED = ObservedPod("p", on("b", **{MOVING: (Share("a", 2),)}), on("b"))
PLANS = {
    "true assignments are left alone": ([observed("p", "a", "a")], "", []),
    "another card is corrected in one write": ([observed("p", "a", "b")], "", [[("p", {"b": 2}, True)]]),
    "without assignment": ([observed("p", None, "b")], "b", [[("p", {"b": 2}, True)]]),
    "two that swapped stay charged until both are written": (
        [observed("p", "a", "b"), observed("q", "b", "a")],
        "",
        [
            [("p", {"b": 2, "a": 2}, True), ("q", {"a": 2, "b": 2}, True)],
            [("p", {"b": 2}, False), ("q", {"a": 2}, False)],
        ],
    ),
    "a card that no other pod took is left at once": (
        [observed("p", "a", "b"), observed("q", "b", "c")],
        "",
        [[("p", {"b": 2}, True), ("q", {"c": 2, "b": 2}, True)], [("q", {"c": 2}, False)]],
    ),
    "a card that somebody waits for": ([SWAPPED], "a", []),
    "a card that nobody waits for any more": (
        [SWAPPED, observed("q", "a", "b")],
        "",
        [
            [("p", {"b": 2, "a": 2}, True), ("q", {"b": 2, "a": 2}, True)],
            [("p", {"a": 2}, False), ("q", {"b": 2}, False)],
        ],
    ),
    "without assignment it is counted everywhere until the others are written": (
        [observed("p", None, "a"), observed("q", "a", "b")],
        "",
        [[("q", {"a": 2, "b": 2}, True)], [("p", {"a": 2}, True)], [("q", {"b": 2}, False)]],
    ),
    "without assignment where somebody waits": ([observed("p", None, "a"), observed("q", "a", "b")], "b", []),
    "a card stays charged for a pod on it that has to wait": (
        [SWAPPED, observed("q", "a", "c")],
        "a",
        [[("q", {"a": 2, "c": 2}, True)]],
    ),
    "what a run that was cut off left moving is dropped": ([MOVED], "", [[("p", {"b": 2}, False)]]),
    "what is moving stays while the other has to wait": ([MOVED, observed("q", "b", "a")], "a", []),
}


@pytest.mark.parametrize(("pods", "awaited", "writes"), PLANS.values(), ids=PLANS)
def test_corrections_keep_every_held_card_charged(pods, awaited, writes):
    assert describe(plan(pods, awaited)) == writes


@pytest.mark.parametrize(
    ("was", "now", "staying"),
    [
        (Share("a", 8, 300), Share("a", 5, 200), Share("a", 3, 100)),
        (Share("a", 8, 200), Share("a", 7, 300), Share("a", 1, 0)),
        (Share("a", 16, 1000, whole=True), Share("a", 6, 0), Share("a", 10, 1000, whole=True)),
    ],
    ids=["both", "memory", "whole"],
)
def test_amount_left_by_pod_is_charged_until_other_pod_is_written(was, now, staying):
    leaving = ObservedPod("p", Assignment({"c": (was,)}), Assignment({"c": (now,)}))
    coming = observed("q", "b", "a")
    (first, second), (last,) = plan([leaving, coming], ())
    assert (first.uid, first.assignment.containers) == ("p", {"c": (now,), MOVING: (staying,)})
    assert (second.uid, second.assignment, second.first) == ("q", on("a"), True)
    assert (last.uid, last.assignment, last.first) == ("p", leaving.observed, False)


def test_swap_between_containers_of_one_pod_is_written_at_once():
    was = Assignment({"c": (Share("a", 4),), "d": (Share("b", 2),)})
    now = Assignment({"c": (Share("b", 4),), "d": (Share("a", 2),)})
    assert plan([ObservedPod("p", was, now)], []) == [[Correction("p", now, first=True)]]


class Container(NamedTuple):
    """The request of a pod's only container, the cards that it was assigned, and the cards that it holds."""

    memory: int
    compute: int
    whole: bool
    put: frozenset[str] | None
    on: frozenset[str]

    def shares(self, cards):
        return Assignment({"c": tuple(Share(card, self.memory, self.compute, self.whole) for card in sorted(cards))})


@st.composite
def containers(draw):
    """Containers that can be on cards of one node together: a card that is held whole is held by one.

    Whole cards were all assigned: a ledger that counts an unassigned one on empty cards covers no share by it.
    """
    found, shared, whole_cards = [], set(), set()
    for whole in draw(st.lists(st.sampled_from([False, False, True]), max_size=6)):
        free = sorted(set("abcd") - whole_cards - (shared if whole else set()))
        if free:
            on = draw(st.frozensets(st.sampled_from(free), min_size=1, max_size=2))
            put = draw(st.frozensets(st.sampled_from("abcd"), min_size=len(on), max_size=len(on)))
            put = put if whole or draw(st.booleans()) else None
            amounts = ALL if whole else (draw(st.integers(1, 4)), draw(st.sampled_from([0, 300])))
            found.append(Container(*amounts, whole, put, on))
            (whole_cards if whole else shared).update(on)
    return found


# The amount of a whole card, which is more than any sum of shares.
ALL = (10**6, 10**6)


class Node:
    """The amounts that the pods of a node hold, and the amounts of a ledger that reads each pod separately.

    Pods from `waiting` on are without devices: the ledger counts them, and they hold nothing.
    """

    def __init__(self, pods, waiting):
        self.pods = {f"p{number}": pod for number, pod in enumerate(pods)}
        self.waiting = {f"p{number}" for number in range(waiting, len(pods))}
        self.written = {uid: None if pod.put is None else pod.shares(pod.put) for uid, pod in self.pods.items()}

    def plan(self, refused=()):
        admitted = [
            ObservedPod(uid, self.written[uid], pod.shares(pod.on))
            for uid, pod in self.pods.items()
            if uid not in self.waiting
        ]
        awaited = {card for uid in self.waiting if self.written[uid] for card in self.pods[uid].put}
        return plan(admitted, awaited, refused)

    def held(self, card):
        pods = [pod for uid, pod in self.pods.items() if uid not in self.waiting and card in pod.on]
        return sum(pod.memory for pod in pods), sum(pod.compute for pod in pods)

    def counted(self, card):
        """Add up what the pods with devices are charged with on a card."""
        admitted = [(uid, self.written[uid]) for uid in self.pods if uid not in self.waiting]
        shares = [share for _, written in admitted if written for each in written.containers.values() for share in each]
        shares = [share for share in shares if share.card == card]
        strays = [self.pods[uid] for uid, written in admitted if written is None]
        if any(share.whole for share in shares):
            return ALL
        return (
            sum(share.memory_bytes for share in shares) + sum(pod.memory * len(pod.on) for pod in strays),
            sum(share.compute for share in shares) + sum(pod.compute for pod in strays),
        )

    def write(self, correction):
        before = {card: self.counted(card) for card in "abcd"}
        self.written[correction.uid] = correction.assignment
        for card in "abcd":
            for now, was, held in zip(self.counted(card), before[card], self.held(card), strict=True):
                assert was < held or now >= held, f"{correction} frees what is held of card {card}"


def shuffle(waves, data):
    """Return the writes in an order in which they may be done."""
    return [write for wave in waves for write in data.draw(st.permutations(wave), label="a wave")]


@given(containers(), st.data())
def test_corrections_never_free_held_amounts(pods, data):
    node = Node(pods, data.draw(st.integers(0, len(pods)), label="the first pod that waits"))
    while node.waiting:
        # An agent may stop after any write, and pods get their devices in the meantime.
        writes = shuffle(node.plan(), data)
        for write in writes[: data.draw(st.integers(0, len(writes)), label="writes")]:
            node.write(write)
        node.waiting.remove(data.draw(st.sampled_from(sorted(node.waiting)), label="gets its devices"))
    for write in shuffle(node.plan(), data):
        node.write(write)
    assert node.written == {uid: pod.shares(pod.on) for uid, pod in node.pods.items()}
    assert node.plan() == []


@given(containers(), st.data())
def test_refused_corrections_do_not_block_other_pods_or_free_amounts(pods, data):
    node = Node(pods, len(pods))
    refusing, refused = data.draw(st.sets(st.sampled_from(sorted(node.pods)))) if pods else set(), set()
    while waves := node.plan(refused):
        for wave in waves:
            for write in shuffle([wave], data):
                if write.uid in refusing:
                    refused.add(write.uid)
                else:
                    node.write(write)
            if refused & {write.uid for write in wave}:
                break
    held = {uid: pod.shares(pod.on).containers["c"] for uid, pod in node.pods.items()}
    for uid in node.pods.keys() - refusing:
        unsaid = {card for each in refused if node.written[each] for card in node.pods[each].on}
        assert (node.written[uid] is None and len(unsaid) > 1) or node.written[uid].containers["c"] == held[uid]
    for write in shuffle(node.plan(), data):
        node.write(write)
    assert node.plan() == []
    assert node.written == {uid: pod.shares(pod.on) for uid, pod in node.pods.items()}


def test_pod_without_assignment_covers_amounts_of_refused_pod():
    pods = [observed("p", "a", "b"), observed("q", None, "a")]
    assert describe(plan(pods, [], ["p"])) == [[("q", {"a": 2, "b": 2}, True)]]


@given(containers(), st.integers(0, 6), st.data())
def test_all_possible_corrections_are_planned_at_once_while_pods_wait(pods, waiting, data):
    node = Node(pods, waiting)
    for write in shuffle(node.plan(), data):
        node.write(write)
    assert node.plan() == []
