from __future__ import annotations

from dataclasses import replace

import pytest

from accelkit.model.card import Card, Health
from accelkit.model.card_loss import GONE_FROM_NODE
from accelkit.node.card_states import CardStates
from accelkit.node.discovery import FoundCard
from accelkit.vendors.profiles import load_profiles

PROFILES = load_profiles()


class Monitor:
    def __init__(self):
        self.told = {}
        self.faults = {}

    def observe(self, cards):
        self.asked = [each.card.id for each in cards]
        return self.told

    def list_faults(self):
        return self.faults

    def remember_fault(self, card, fault):
        self.faults[card] = fault


@pytest.fixture
def monitor():
    return Monitor()


@pytest.fixture
def states(monitor):
    return CardStates(monitor)


def found(name, index, **more):
    return FoundCard(Card(name, "simulated", "m", 16, **more), index, index, PROFILES["simulated"])


def seen(cards):
    return [(each.card.id, each.card.health.value, each.card.health_reason) for each in cards]


def test_cards_come_in_the_order_of_their_numbers(states):
    assert seen(states.update([found("b", 1), found("a", 0)], frozenset())) == [
        ("a", "healthy", ""),
        ("b", "healthy", ""),
    ]


def test_the_monitors_word_is_the_cards_health(states, monitor):
    monitor.told = {"a": (Health.UNHEALTHY, "too hot"), "b": (Health.UNKNOWN, "cannot be read")}
    cards = states.update([found("a", 0), found("b", 1)], frozenset())
    assert seen(cards) == [("a", "unhealthy", "too hot"), ("b", "unknown", "cannot be read")]
    assert [each.card.placeable for each in cards] == [False, True]


def test_what_discovery_knows_to_be_bad_is_bad(states, monitor):
    monitor.told = {"a": (Health.HEALTHY, "")}
    bad = found("a", 0, health=Health.UNHEALTHY, health_reason="listed so")
    assert seen(states.update([bad], frozenset())) == [("a", "unhealthy", "listed so")]


def test_a_card_that_is_not_found_any_more_stays_with_its_number_until_it_is_back(states):
    states.update([found("a", 0), found("b", 1)], frozenset())
    assert seen(states.update([found("b", 0)], frozenset()))[-1] == ("b", "healthy", "")
    assert ("a", "unhealthy", GONE_FROM_NODE) in seen(states.update([found("b", 1)], frozenset()))
    assert ("a", "healthy", "") in seen(states.update([found("a", 0), found("b", 1)], frozenset()))


def test_a_card_gone_before_the_agent_started_stays_where_containers_hold_it(states):
    published = [Card("a", "simulated", "m", 16), Card("b", "simulated", "m", 16), Card("c", "foreign", "m", 16)]
    states.remember(published, PROFILES, {"b", "c"})
    assert seen(states.update([found("a", 0)], frozenset())) == [
        ("a", "healthy", ""),
        ("b", "unhealthy", GONE_FROM_NODE),
    ]


def test_a_cordoned_card_keeps_its_health(states):
    (card,) = states.update([found("a", 0)], frozenset({"0"}))
    assert (card.card.health, card.card.cordoned, card.card.placeable) == (Health.HEALTHY, True, False)


def test_a_card_that_lost_its_name_with_its_driver_is_no_new_one(states):
    states.update([found("GPU-1", 0, bdf="0000:19:00.0")], frozenset())
    assert seen(states.update([found("place", 0, bdf="0000:19:00.0")], frozenset())) == [
        ("GPU-1", "unhealthy", GONE_FROM_NODE)
    ]
    other = replace(found("GPU-2", 0, bdf="0000:19:00.0"), driver="nvidia")
    assert ("GPU-2", "healthy", "") in seen(states.update([other], frozenset()))


def test_what_is_not_mended_is_published_and_taken_over_again(states, monitor):
    monitor.faults = {"a": "xid 79 at b"}
    (card,) = [each.card for each in states.update([found("a", 0)], frozenset())]
    assert card.fault == "xid 79 at b"
    monitor.faults = {}
    states.remember([card, found("b", 1).card], {}, set())
    assert monitor.faults == {"a": "xid 79 at b"}
