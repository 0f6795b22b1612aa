from collections import Counter

import pytest
from device_names import unit
from hypothesis import given
from hypothesis import strategies as st

from accelkit.errors import DevicePluginError
from accelkit.model.card import MAX_CARD_ID, Card
from accelkit.node import devices
from accelkit.node.devices import DeviceIds

IDS = DeviceIds("abc")
UUID = "GPU-8a7e2a50-5b9c-4f0e-9e4c-0123456789ab"
CARD_IDS = st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=MAX_CARD_ID)


@pytest.fixture
def colliding(monkeypatch):
    """Give cards the same alias if their IDs begin with the same character."""
    monkeypatch.setattr(devices, "_build_alias", lambda card: f"{card[0]:2>5}")


def test_memory_id_is_short_and_depends_only_on_its_card():
    assert unit(UUID, 35) == DeviceIds([UUID, "b", "c"]).build_memory_id(UUID, 35) == "6zr4q::z"


def test_a_card_has_an_id_for_every_whole_unit():
    assert IDS.list_memory_ids(Card("a", "v", "m", 10, reserved_bytes=1), 4) == [unit("a", 0), unit("a", 1)]
    assert IDS.list_memory_ids(Card("a", "v", "m", None), 4) == []


def test_card_id_with_invalid_unicode_has_device_ids():
    ids = DeviceIds(["\udc80"])
    assert ids.find_card(ids.build_memory_id("\udc80", 1)) == "\udc80"


def test_numbers_in_memory_ids_use_base_36():
    ids = IDS.list_memory_ids(Card("a", "v", "m", 1300), 1)
    assert [ids[number].partition("::")[2] for number in (0, 9, 10, 35, 36, 1295, 1296)] == [
        *("0", "9", "a", "z", "10", "zz", "100"),
    ]
    assert len(set(ids)) == 1300


def test_find_card_returns_unknown_ids_unchanged():
    assert [IDS.find_card(each) for each in (unit("b", 7), "b", "0000:3b:00.0-20b2", unit("z", 7))] == [
        *("b", "b", "0000:3b:00.0-20b2", unit("z", 7)),
    ]


def test_cards_with_the_same_alias_use_their_full_ids(colliding):
    ids = DeviceIds(["a1", "a2", "b"])
    assert [ids.build_memory_id(card, 1) for card in ("a1", "a2", "b")] == ["=a1::1", "=a2::1", "2222b::1"]
    assert [ids.find_card(each) for each in ("=a1::1", "=a2::1", "2222a::1")] == ["a1", "a2", "2222a::1"]
    assert not ids.owns("2222a::1", whole=False)
    assert DeviceIds(["a1", "b"]).build_memory_id("a1", 1) == "2222a::1"


def test_longest_memory_id_has_at_most_63_characters(colliding):
    ids = DeviceIds(["x" * MAX_CARD_ID, "xy"])
    assert len(ids.build_memory_id("x" * MAX_CARD_ID, 2**45)) <= 63


@given(st.lists(CARD_IDS, min_size=1, max_size=8, unique=True), st.integers(0, 2**45))
def test_every_id_identifies_only_its_card(cards, number):
    ids = DeviceIds(cards)
    memory = {card: ids.build_memory_id(card, number) for card in cards}
    assert len({*memory.values(), *cards}) == 2 * len(cards)
    for card, device_id in memory.items():
        assert (ids.find_card(device_id), ids.find_card(card)) == (card, card)
        assert ids.owns(device_id, whole=False)
        assert not ids.owns(device_id, whole=True)
        assert not ids.owns(card, whole=False)


@given(st.text(max_size=20))
def test_only_one_form_of_an_id_is_accepted(device_id):
    if IDS.owns(device_id, whole=False):
        card, _, number = device_id.partition("::")
        assert IDS.build_memory_id(IDS.find_card(device_id), int(number, 36)) == device_id, card


def test_required_ids_are_picked_first_and_other_ids_by_number():
    available = [unit("a", 36), unit("a", 9), unit("a", 35), unit("b", 0)]
    chosen = IDS.pick(available, [unit("a", 12)], Counter(a=3, b=1))
    assert chosen == [unit("a", 12), unit("a", 9), unit("a", 35), unit("b", 0)]


def test_only_available_ids_are_picked():
    assert IDS.pick([unit("a", 0)], [], Counter(a=2)) == [unit("a", 0)]


@pytest.mark.parametrize("taken", [[unit("b", 0)], [unit("a", 0), unit("a", 1)]])
def test_more_required_ids_than_requested_are_refused(taken):
    with pytest.raises(DevicePluginError, match="must be included"):
        IDS.pick([unit("a", 5)], taken, Counter(a=1))
