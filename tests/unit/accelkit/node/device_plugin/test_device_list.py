import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card, Health
from accelkit.model.units import parse_unit
from accelkit.node.device_plugin.device_list import build_device_list, check_list, find_smallest_unit, measure_list
from accelkit.node.kubelet import MAX_MESSAGE_BYTES

GB = 10**9
CARDS = st.builds(
    Card,
    id=st.text(st.characters(codec="utf-8", exclude_characters=":"), min_size=1, max_size=48),
    vendor=st.just("v"),
    model=st.just("m"),
    memory_bytes=st.none() | st.integers(0, 1200),
    numa=st.none() | st.sampled_from([0, 1, 127, 128, 20_000]),
)


def cards(number, gigabytes, prefix="GPU-12345678-1234-1234-1234-12345678901"):
    return [Card(f"{prefix}{n}", "v", "m", gigabytes * GB, numa=n // 4) for n in range(number)]


@settings(max_examples=60)
@given(st.lists(CARDS, max_size=3, unique_by=lambda card: card.id), st.integers(1, 40))
def test_measured_length_equals_message_with_all_cards_unhealthy(found, unit):
    ill = [Card(c.id, c.vendor, c.model, c.memory_bytes, numa=c.numa, health=Health.UNHEALTHY) for c in found]
    assert measure_list(found, unit) == build_device_list(ill, whole=False, unit_bytes=unit).ByteSize()
    assert measure_list(found, unit) >= build_device_list(found, whole=False, unit_bytes=unit).ByteSize()


def test_billions_of_devices_are_measured_without_being_built():
    assert measure_list(cards(8, 141), 1) > 10**13


def test_too_small_unit_is_refused_with_smallest_possible_unit():
    found = cards(8, 32)
    assert find_smallest_unit(found) == "2MiB"
    with pytest.raises(
        DevicePluginError, match=r"256,000 devices.*accepts at most 4,194,304 bytes; choose at least 2MiB"
    ):
        check_list(found, 10**6)
    check_list(found, parse_unit("2MiB"))
    assert measure_list(found, parse_unit("0.001GiB")) > MAX_MESSAGE_BYTES


@pytest.mark.parametrize("health", [Health.HEALTHY, Health.UNHEALTHY])
def test_smallest_gcushare_unit_fits_eight_cards_of_16_gib(health):
    found = [
        Card(f"GPU-12345678-1234-1234-1234-12345678901{n}", "v", "m", 16 * 2**30, numa=n // 4, health=health)
        for n in range(8)
    ]
    answer = build_device_list(found, whole=False, unit_bytes=parse_unit("0.001"))
    assert len(answer.devices) == 128_000
    assert answer.ByteSize() <= 31 * 128_000 < MAX_MESSAGE_BYTES
    assert max(len(device.ID) for device in answer.devices) == 10


def test_no_unit_works_if_the_node_has_too_much_memory():
    found = cards(8, 10**5)
    assert find_smallest_unit(found) is None
    with pytest.raises(DevicePluginError, match="no supported unit is large enough"):
        check_list(found, parse_unit("1"))


@pytest.mark.parametrize("number", [0, 8])
def test_nodes_without_readable_memory_accept_any_unit(number):
    found = [Card(f"{n}", "v", "m", None) for n in range(number)]
    assert measure_list(found, 1) == 0
    check_list(found, 1)
