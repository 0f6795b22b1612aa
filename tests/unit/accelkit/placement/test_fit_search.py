"""`place` against a search through every choice, and against every draw the kubelet may make."""

from itertools import combinations, permutations

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card, Health, Link
from accelkit.model.request import CardGroup, ContainerRequest, Kind, Near, PodRequest
from accelkit.placement.card_state import CardState
from accelkit.placement.fit import place
from accelkit.placement.misfit import MisfitReason
from accelkit.placement.policies import Policy
from accelkit.placement.topology.links import SAME_SOCKET, SAME_SWITCH, find_links

NAMES = "abcd"


def often(usual, *others):
    """Draw `usual` in most cases, so that what the others rule out does not rule out nearly all."""
    return st.sampled_from([usual] * 4 + list(others))


@st.composite
def card_states(draw):
    names = NAMES[: draw(st.integers(1, 4))]
    links = {name: [] for name in names}
    for pair in combinations(names, 2):
        one, other = draw(st.permutations(pair))
        if kind := draw(st.sampled_from(["", "x", "x", "y"])):
            links[one].append(Link(other, kind))
    return [draw(states(name, number, tuple(links[name]))) for number, name in enumerate(names)]


@st.composite
def states(draw, name, number, links):
    card = Card(
        name,
        "v",
        draw(often("m", "n")),
        draw(often(16, 8, None)),
        numa=draw(st.sampled_from([None, 0, 0, 1])),
        links=links,
        health=draw(often(Health.HEALTHY, Health.UNKNOWN, Health.UNHEALTHY)),
        index=number,
    )
    if draw(st.booleans()):
        return CardState(card, card.capacity_bytes, 1000, empty=True)
    free = draw(often(card.capacity_bytes, -2, 0, card.capacity_bytes // 2))
    return CardState(card, free, draw(often(1000, 0, 500)), empty=False)


@st.composite
def requests(draw):
    kinds = sorted(draw(st.lists(st.sampled_from(Kind), min_size=1, max_size=4)), key=lambda kind: kind is Kind.APP)
    containers = []
    numbers = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)
    for number, kind in enumerate(kinds):
        whole = draw(often(False, True, True))
        containers.append(
            ContainerRequest(
                str(number),
                kind,
                draw(st.sampled_from([1, 1, 2, 2, 3])),
                0 if whole else draw(st.sampled_from([2, 2, 4, 8, 16])),
                0 if whole else draw(often(0, 300, 500)),
                whole=whole,
                model=draw(often("", "m")),
                same_card_as=draw(often("", str(draw(st.integers(0, number - 1))))) if number else "",
                link=draw(often("", "any", "x")),
                numa=draw(often("", "single", "single")),
                policy=draw(st.sampled_from(["", *Policy])),
                allowed=draw(often((), draw(numbers))),
                denied=draw(often((), draw(numbers))),
                min_memory_bytes=draw(st.sampled_from([0] * 19 + [9])),
            )
        )
        if draw(often(False, True)):
            containers[-1] = msgspec.structs.replace(containers[-1], groups=draw(groups(containers[-1].cards)))
    return PodRequest(tuple(containers))


@st.composite
def groups(draw, cards):
    """Groups of so many cards; those of one socket come first, so that there may be several of them."""
    found = []
    while cards:
        mins = draw(st.lists(st.sampled_from([0] * 9 + [9]), min_size=1, max_size=cards))
        cards -= len(mins)
        found.append(CardGroup(draw(st.sampled_from(Near)), tuple(sorted(mins, reverse=True)), draw(often(None, 1))))
    return tuple(found)


class Pod:
    """A pod that grows container by container on explicit devices; `take` says whether it may be so."""

    def __init__(self, states, links):
        self.places = {state.card.id: place for place, state in enumerate(states)}
        self.links = links
        self.states = {state.card.id: state for state in states}
        self.cards = {}
        self.devices = {name: set() for name in self.states}
        self.reusable = {name: set() for name in self.states}
        self.compute = dict.fromkeys(self.states, 0)
        self.compute_pool = dict.fromkeys(self.states, 0)
        self.whole = set()
        self.whole_pool = set()

    def take(self, container, cards):
        self.cards[container.container] = cards
        if not self.allowed(container, cards):
            return False
        return self.take_whole(container, cards) if container.whole else self.take_memory(container, cards)

    def allowed(self, container, cards):
        found = [self.states[name].card for name in cards]
        numbers = {card.index for card in found}
        if any(card.health is Health.UNHEALTHY for card in found) or numbers & set(container.denied):
            return False
        if (container.allowed and not numbers <= set(container.allowed)) or not self.large_and_near(container, found):
            return False
        if container.model and any(card.model != container.model for card in found):
            return False
        if container.same_card_as and not set(cards) <= set(self.cards[container.same_card_as]):
            return False
        if container.numa and (found[0].numa is None or len({card.numa for card in found}) > 1):
            return False
        kinds = {"x", "y"} if container.link == "any" else {container.link}
        ends = {(card.id, link.to) for card in found for link in card.links if link.kind in kinds}
        return not container.link or all((a, b) in ends or (b, a) in ends for a, b in combinations(cards, 2))

    def large_and_near(self, container, found):
        if any((card.memory_bytes or 0) < container.min_memory_bytes for card in found):
            return False
        return not container.groups or any(self.grouped(container.groups, order) for order in permutations(found))

    def grouped(self, groups, order):
        """Whether the cards in this order are the groups, one after the other."""
        rest, sockets = list(order), {}
        for group in groups:
            mine, rest = rest[: group.cards], rest[group.cards :]
            sockets.setdefault(group.socket, []).extend(mine)
            least = {Near.SWITCH: SAME_SWITCH, Near.SOCKET: SAME_SOCKET, Near.ANY: 0}[group.near]
            pairs = zip(mine, group.min_memory_bytes, strict=True)
            if any((card.memory_bytes or 0) < amount for card, amount in pairs) or not self.near(mine, least):
                return False
        return all(self.near(cards, SAME_SOCKET) for socket, cards in sockets.items() if socket is not None)

    def near(self, cards, least):
        places = [self.places[card.id] for card in cards]
        return all(self.links.weights[a][b] >= least for a, b in combinations(places, 2))

    def take_whole(self, container, cards):
        draws = list(combinations(self.whole_pool, len(cards))) or [cards]
        if cards not in [tuple(sorted(draw)) for draw in draws] or not all(self.allowed(container, d) for d in draws):
            return False
        if len(self.whole_pool) < len(cards) and not self.whole_pool <= set(cards):
            return False
        for name in set(cards) - self.whole_pool:
            if not self.states[name].empty or self.devices[name] or name in self.whole or self.compute[name]:
                return False
        self.whole |= set(cards)
        self.whole_pool = self.whole_pool | set(cards) if container.kind is Kind.INIT else self.whole_pool - set(cards)
        return True

    def take_memory(self, container, cards):
        held = {name: len(pool) for name, pool in self.reusable.items() if pool}
        set_request = container.memory_bytes * len(cards)
        if sum(held.values()) > set_request:
            # The kubelet draws any of them: only on one card is it known of which.
            if len(cards) > 1 or set(held) != set(cards):
                return False
        elif any(name not in cards or count > container.memory_bytes for name, count in held.items()):
            return False
        taken = [self.take_from(container, name) for name in cards]
        return all(taken)

    def take_from(self, container, name):
        state = self.states[name]
        taken = set(sorted(self.reusable[name])[: container.memory_bytes])
        first = len(self.devices[name])
        taken |= set(range(first, first + container.memory_bytes - len(taken)))
        self.devices[name] |= taken
        reused = min(self.compute_pool[name], container.compute)
        self.compute[name] += container.compute - reused
        if container.kind is Kind.INIT:
            self.reusable[name] |= taken
            self.compute_pool[name] += container.compute - reused
        else:
            self.reusable[name] -= taken
            self.compute_pool[name] -= reused
        room = len(self.devices[name]) <= state.free_bytes and self.compute[name] <= state.free_compute
        return room and name not in self.whole


def possible(states, links, request, choice):
    pod = Pod(states, links)
    return all(pod.take(container, cards) for container, cards in zip(request.containers, choice, strict=False))


def any_choice(states, links, request, begun=()):
    if len(begun) == len(request.containers):
        return True
    cards = [state.card.id for state in states]
    choices = [(*begun, found) for found in combinations(cards, request.containers[len(begun)].cards)]
    return any(
        possible(states, links, request, choice) and any_choice(states, links, request, choice) for choice in choices
    )


@st.composite
def connections(draw, states):
    letters = st.sampled_from("DSSHNC?")
    rows = tuple("".join(draw(letters) for _ in states) for _ in states)
    return find_links([state.card for state in states], rows)


@given(st.data(), card_states(), requests(), st.sampled_from(Policy))
@settings(max_examples=300)
def test_placement_is_found_exactly_if_valid_choice_exists(data, states, request, policy):
    links = data.draw(connections(states))
    placed = place(states, request, policy, links=links)
    if isinstance(placed, Assignment):
        event("fits")
        choice = [tuple(sorted(share.card for share in placed.containers[c.container])) for c in request.containers]
        assert possible(states, links, request, choice)
    else:
        event(f"does not fit: {placed.reason}")
        assert placed.reason is not MisfitReason.TOO_COMPLEX
        assert not any_choice(states, links, request)


@given(card_states(), requests(), st.sampled_from(Policy))
@settings(max_examples=150)
def test_each_share_equals_request_of_its_container(states, request, policy):
    placed = place(states, request, policy)
    cards = {state.card.id: state.card for state in states}
    for container in request.containers if isinstance(placed, Assignment) else ():
        shares = placed.containers[container.container]
        assert len({share.card for share in shares}) == len(shares) == container.cards
        for share in shares:
            whole = (cards[share.card].capacity_bytes, 1000, True)
            asked = whole if container.whole else (container.memory_bytes, container.compute, False)
            assert (share.memory_bytes, share.compute, share.whole) == asked
