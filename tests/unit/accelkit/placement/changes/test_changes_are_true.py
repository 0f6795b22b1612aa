"""Whatever is found: what is changed as it says does fit, and what is proven to be the smallest is."""

from itertools import combinations

import msgspec
from hypothesis import event, given
from hypothesis import strategies as st
from searched_nodes import BYTES, node, search

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card, Health, Link
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.placement.changes.change import ChangeKind
from accelkit.placement.fit import place
from accelkit.placement.policies import Policy

NONE = {"model": "", "link": "", "numa": "", "same_card_as": "", "allowed": frozenset(), "denied": frozenset()}
AMOUNTS = {
    ChangeKind.LESS_MEMORY: "memory_bytes",
    ChangeKind.LESS_COMPUTE: "compute",
    ChangeKind.FEWER_CARDS: "cards",
}


@st.composite
def nodes(draw):
    names = "abcd"[: draw(st.integers(1, 4))]
    cards = []
    for number, name in enumerate(names):
        health = draw(st.sampled_from([Health.HEALTHY, Health.HEALTHY, Health.HEALTHY, Health.UNHEALTHY]))
        links = tuple(Link(other, "x") for other in names[:number] if draw(st.booleans()))
        model, numa = draw(st.sampled_from("mmn")), draw(st.sampled_from([None, 0, 1]))
        cards.append(Card(name, "v", model, 16, numa=numa, links=links, health=health, index=number))
    held, left = {}, dict.fromkeys(names, 16)
    for number in range(draw(st.integers(0, 5))):
        amounts = {}
        for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
            if draw(st.integers(0, 4)) == 0 and left[name] == 16:
                amounts[name], left[name] = None, 0
            elif left[name]:
                amounts[name] = draw(st.integers(1, left[name]))
                left[name] -= amounts[name]
        if amounts:
            held[f"p{number}"] = amounts
    return node(cards, held, compute=draw(st.sampled_from([1000, 400])))


@st.composite
def requests(draw, kinds=(Kind.APP, Kind.SIDECAR)):
    containers = []
    for number in range(draw(st.integers(1, 3))):
        whole = draw(st.integers(0, 3)) == 0
        containers.append(
            ContainerRequest(
                str(number),
                draw(st.sampled_from(kinds)),
                draw(st.sampled_from([1, 1, 2, 3])),
                0 if whole else draw(st.integers(1, 18)),
                0 if whole else draw(st.sampled_from([0, 0, 500])),
                whole=whole,
                model=draw(st.sampled_from(["", "", "n"])),
                link=draw(st.sampled_from(["", "", "x"])),
                numa=draw(st.sampled_from(["", "", "single"])),
                denied=draw(st.sampled_from([frozenset(), frozenset(), frozenset({0})])),
            )
        )
    return PodRequest(tuple(containers))


def fits(states, request):
    return isinstance(place(states, request, Policy.BINPACK), Assignment)


def change_container(request, name, **fields):
    return PodRequest(
        tuple(
            msgspec.structs.replace(each, **fields) if name in ("", each.container) else each
            for each in request.containers
        )
    )


def apply(change, situation, request):
    """The cards and the request after a change, as its fields say it."""
    states = situation.states
    match change.kind:
        case ChangeKind.WITHOUT_CONSTRAINT:
            request = change_container(request, change.container, **{change.constraint: NONE[change.constraint]})
        case ChangeKind.CARD_BACK:
            states = [
                msgspec.structs.replace(each, card=msgspec.structs.replace(each.card, health=Health.HEALTHY))
                if each.card.id in change.cards
                else each
                for each in states
            ]
        case ChangeKind.PODS_ENDED:
            states = situation.leave_out({each.uid for each in change.pods})
        case _:
            request = change_container(request, change.container, **{AMOUNTS[change.kind]: change.after})
    return states, request


@given(nodes(), requests(tuple(Kind)))
def test_pod_fits_on_reported_cards_after_change(situation, request):
    if fits(situation.states, request):
        return
    for change in search(situation, request):
        event(change.kind)
        states, changed = apply(change, situation, request)
        placed = place(states, changed, Policy.BINPACK)
        assert isinstance(placed, Assignment)
        shares = [share for each in placed.containers.values() for share in each]
        assert set(change.taken) == {share.card for share in shares}


@given(nodes(), requests())
def test_change_of_amount_is_smallest_that_suffices(situation, request):
    if fits(situation.states, request):
        return
    found = {change.kind: change for change in search(situation, request, terms=BYTES)}
    for kind, name in AMOUNTS.items():
        least = found[kind].size[0] if kind in found else None
        for container in request.containers:
            before = getattr(container, name)
            for after in range(0 if kind is ChangeKind.LESS_COMPUTE else 1, before, 100 if before >= 100 else 1):
                times = 1 if kind is ChangeKind.FEWER_CARDS else container.cards
                smaller = least is None or (before - after) * times < least
                # Whole cards have no memory to ask less of.
                if smaller and not (container.whole and kind is not ChangeKind.FEWER_CARDS):
                    assert not fits(situation.states, change_container(request, container.container, **{name: after}))


@given(nodes(), requests())
def test_pods_ended_change_is_minimal_and_proven_for_up_to_two_pods(situation, request):
    if fits(situation.states, request):
        return
    uids = [holder.pod.uid for holder in situation.holders]
    memory = {holder.pod.uid: holder.memory_bytes for holder in situation.holders}
    enough = [
        (count, sum(memory[uid] for uid in gone), gone)
        for count in range(1, len(uids) + 1)
        for gone in combinations(uids, count)
        if fits(situation.leave_out(gone), request)
    ]
    (change,) = [each for each in search(situation, request) if each.kind is ChangeKind.PODS_ENDED] or [None]
    assert (change is None) == (not enough)
    if change is not None:
        event(f"{len(change.pods)} pods, proven {change.proven}")
        best = min(each[:2] for each in enough)
        assert change.size == best if change.proven else change.size >= best
        assert change.proven == (len(change.pods) <= 2)
        gone = {each.uid for each in change.pods}
        # None of them could stay.
        assert not any(fits(situation.leave_out(gone - {uid}), request) for uid in gone)
