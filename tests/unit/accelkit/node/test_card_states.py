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
        self.observed = {}
        self.faults = {}

    def observe(self, cards):
        self.asked = [each.card.id for each in cards]
        return self.observed

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


def describe(cards):
    return [(each.card.id, each.card.health.value, each.card.health_reason) for each in cards]


def test_cards_are_sorted_by_their_numbers(states):
    assert describe(states.update([found("b", 1), found("a", 0)], frozenset())) == [
        ("a", "healthy", ""),
        ("b", "healthy", ""),
    ]


def test_a_card_has_the_health_that_the_monitor_returns(states, monitor):
    monitor.observed = {"a": (Health.UNHEALTHY, "too hot"), "b": (Health.UNKNOWN, "cannot be read")}
    cards = states.update([found("a", 0), found("b", 1)], frozenset())
    assert describe(cards) == [("a", "unhealthy", "too hot"), ("b", "unknown", "cannot be read")]
    assert [each.card.placeable for each in cards] == [False, True]


def test_a_card_that_discovery_reports_as_unhealthy_is_unhealthy(states, monitor):
    monitor.observed = {"a": (Health.HEALTHY, "")}
    bad = found("a", 0, health=Health.UNHEALTHY, health_reason="listed so")
    assert describe(states.update([bad], frozenset())) == [("a", "unhealthy", "listed so")]


def test_missing_card_keeps_its_number_until_found_again(states):
    states.update([found("a", 0), found("b", 1)], frozenset())
    assert describe(states.update([found("b", 0)], frozenset()))[-1] == ("b", "healthy", "")
    assert ("a", "unhealthy", GONE_FROM_NODE) in describe(states.update([found("b", 1)], frozenset()))
    assert ("a", "healthy", "") in describe(states.update([found("a", 0), found("b", 1)], frozenset()))


def test_card_missing_at_agent_start_is_listed_only_if_held(states):
    published = [Card("a", "simulated", "m", 16), Card("b", "simulated", "m", 16), Card("c", "foreign", "m", 16)]
    states.remember(published, PROFILES, {"b", "c"})
    assert describe(states.update([found("a", 0)], frozenset())) == [
        ("a", "healthy", ""),
        ("b", "unhealthy", GONE_FROM_NODE),
    ]


def test_a_cordoned_card_keeps_its_health(states):
    (card,) = states.update([found("a", 0)], frozenset({"0"}))
    assert (card.card.health, card.card.cordoned, card.card.placeable) == (Health.HEALTHY, True, False)


def test_card_without_driver_at_known_address_is_not_a_new_card(states):
    states.update([found("GPU-1", 0, bdf="0000:19:00.0")], frozenset())
    assert describe(states.update([found("place", 0, bdf="0000:19:00.0")], frozenset())) == [
        ("GPU-1", "unhealthy", GONE_FROM_NODE)
    ]
    other = replace(found("GPU-2", 0, bdf="0000:19:00.0"), driver="nvidia")
    assert ("GPU-2", "healthy", "") in describe(states.update([other], frozenset()))


def test_a_fault_is_published_and_restored_after_a_restart(states, monitor):
    monitor.faults = {"a": "xid 79 at b"}
    (card,) = [each.card for each in states.update([found("a", 0)], frozenset())]
    assert card.fault == "xid 79 at b"
    monitor.faults = {}
    states.remember([card, found("b", 1).card], {}, set())
    assert monitor.faults == {"a": "xid 79 at b"}
