import pytest
from device_names import unit
from device_names import units as ids

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.node.device_plugin.capacity_check import ContainerHolding, check_capacity, compute_device_bytes
from accelkit.node.devices import DeviceIds

CARDS = [Card("a", "v", "m", 16), Card("b", "v", "m", 16)]


def weigh(*holdings, card="a"):
    ids_of = DeviceIds("ab")
    return compute_device_bytes(
        [ContainerHolding(held, ids_of.count_by_card(held), worth) for held, worth in holdings], {card}
    )


def test_devices_count_with_assigned_memory_of_their_container():
    assert weigh((ids("a", 0, 2), 8)) == {unit("a", 0): 4, unit("a", 1): 4}


def test_devices_that_an_init_container_passed_on_count_once():
    init, app = ids("a", 0, 2), ids("a", 0, 1)
    assert weigh((init, 8), (app, 2)) == dict.fromkeys(init, 4)


def test_devices_of_a_coarser_unit_keep_their_memory():
    held = weigh((ids("a", 0, 2), 8))
    check_capacity(ids("a", 8, 8), CARDS, held, unit_bytes=1)
    with pytest.raises(
        DevicePluginError, match="card a would be over capacity: containers would hold 17 of its 16 bytes"
    ):
        check_capacity(ids("a", 2, 9), CARDS, held, unit_bytes=1)


def test_cards_without_requested_devices_are_not_checked():
    check_capacity(ids("b", 0, 16), CARDS, weigh((ids("a", 0, 1), 16), card="b"), unit_bytes=1)


def test_devices_passed_on_by_an_init_container_fit_again():
    check_capacity(ids("a", 0, 16), CARDS, weigh((ids("a", 0, 16), 16)), unit_bytes=1)


def test_unknown_cards_are_not_refused_by_capacity_check():
    check_capacity(ids("x", 0, 99), CARDS, {}, unit_bytes=1)


def test_devices_of_containers_on_other_cards_are_not_read():
    split = [*ids("a", 1, 1), *ids("b", 1, 1)]
    assert weigh((ids("b", 2, 9), 9), (split, 8)) == dict.fromkeys(split, 4)
