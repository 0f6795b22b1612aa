from __future__ import annotations

import pytest

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.node.device_plugin.capacity_check import check_capacity, compute_device_bytes

CARDS = [Card("a", "v", "m", 16), Card("b", "v", "m", 16)]


def ids(card, first, count):
    return [f"{card}::{number}" for number in range(first, first + count)]


def test_what_a_container_was_assigned_is_what_its_devices_are_worth():
    assert compute_device_bytes([(["a::0", "a::1"], 8)]) == {"a::0": 4, "a::1": 4}


def test_devices_that_an_init_container_passed_on_count_once():
    assert compute_device_bytes([(["a::0", "a::1"], 8), (["a::0"], 2)]) == {"a::0": 4, "a::1": 4}


def test_devices_of_a_coarser_unit_take_what_they_took():
    held = compute_device_bytes([(ids("a", 0, 2), 8)])
    check_capacity(ids("a", 8, 8), CARDS, held, unit_bytes=1)
    with pytest.raises(
        DevicePluginError, match="card a would be over capacity: containers would hold 17 of its 16 bytes"
    ):
        check_capacity(ids("a", 2, 9), CARDS, held, unit_bytes=1)


def test_other_cards_are_not_concerned():
    check_capacity(ids("b", 0, 16), CARDS, compute_device_bytes([(ids("a", 0, 1), 16)]), unit_bytes=1)


def test_devices_passed_on_by_an_init_container_fit_again():
    check_capacity(ids("a", 0, 16), CARDS, compute_device_bytes([(ids("a", 0, 16), 16)]), unit_bytes=1)


def test_cards_of_another_node_are_refused_elsewhere():
    check_capacity(ids("x", 0, 99), CARDS, {}, unit_bytes=1)
