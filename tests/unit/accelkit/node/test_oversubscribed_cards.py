import pytest

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.model.keys import MEMORY_VARIABLE
from accelkit.node.device_plugin.capacity_check import check_capacity
from accelkit.node.device_plugin.container_response import build_container_response
from accelkit.node.devices import DeviceIds
from accelkit.node.discovery import FoundCard
from accelkit.vendors.profiles import load_profiles

PLAIN = FoundCard(Card("a", "simulated", "m", 20, reserved_bytes=4), 0, 0, load_profiles()["simulated"])
FOUND = PLAIN.oversubscribe(1.5)


def test_memory_factor_of_one_does_not_change_card():
    assert PLAIN.oversubscribe(1.0) is PLAIN


def test_devices_of_memory_factor_are_listed_and_allocated():
    ids = DeviceIds(["a"]).list_memory_ids(FOUND.card, 1)
    assert len(ids) == 24
    check_capacity(ids, [FOUND.card], {}, unit_bytes=1)
    with pytest.raises(DevicePluginError, match="over capacity"):
        check_capacity(ids, [PLAIN.card], {}, unit_bytes=1)


def test_whole_card_memory_variable_ignores_memory_factor(tmp_path):
    given = build_container_response(["a"], [FOUND], tmp_path, unit_bytes=None)
    assert given.envs[MEMORY_VARIABLE] == "16"
