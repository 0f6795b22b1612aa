import json

import pytest

from accelkit.errors import DevicePluginError
from accelkit.model.card import Health

LISTING = "etc/accelkit/simulated-cards.json"


@pytest.mark.parametrize(
    ("file", "value"), [("class", "0x068000"), ("class", "0x040300"), ("vendor", "0x1002"), ("vendor", None)]
)
def test_devices_of_other_class_or_vendor_are_not_cards(host, find, file, value):
    one, other = host.add("nvidia", 2, "T4").cards
    folder = host.find_device_folder(one.bdf)
    (folder / file).unlink()
    if value:
        host.write(folder / file, value)
    host.write(host.find_device_folder(other.bdf) / "class", "0x030000")
    assert [found.card.bdf for found in find()] == [other.bdf]


def test_memory_of_an_unknown_device_is_unknown(host, find):
    host.write(host.find_device_folder(host.add("nvidia", 1, "T4").cards[0].bdf) / "device", "0xffff")
    assert find()[0].card.memory_bytes is None


@pytest.mark.parametrize(("numa", "expected"), [("1\n", 1), ("-1\n", None), ("", None), (None, None)])
def test_invalid_or_missing_numa_node_is_unknown(host, find, numa, expected):
    file = host.find_device_folder(host.add("nvidia", 1, "T4").cards[0].bdf) / "numa_node"
    file.unlink() if numa is None else file.write_text(numa)
    assert find()[0].card.numa == expected


def test_cards_of_all_vendors_are_numbered_by_pci_address(host, find):
    host.add("enflame", 1, "S60").add("nvidia", 1, "T4").add("amd", 1, "MI300X")
    host.write(LISTING, json.dumps({"cards": [{"id": "s", "model": "m", "memory_bytes": 1, "index": 0}]}))
    found = find()
    assert [each.index for each in found] == [0, 1, 2, 3]
    assert [each.card.bdf for each in found] == ["", *sorted(card.bdf for card in host.cards)]


@pytest.fixture
def listing(host):
    host.write(LISTING, "")
    return host.root / LISTING


def test_simulated_cards_are_read_from_list(listing, find):
    card = {"id": "s", "model": "m", "memory_bytes": 16, "index": 3, "numa": 1, "health": "unhealthy"}
    listing.write_text(json.dumps({"cards": [card]}))
    (found,) = find()
    assert (found.index, found.minor, found.card.memory_bytes, found.card.numa) == (3, 3, 16, 1)
    assert found.card.health is Health.UNHEALTHY
    assert found.card.target == ""
    listing.write_text(json.dumps({"cards": [card | {"target": "hip:gfx90a:sramecc+:xnack-"}]}))
    (found,) = find()
    assert (found.card.vendor, found.card.target) == ("simulated", "hip:gfx90a:sramecc+:xnack-")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"cards": [{"id": "s"}]}',
        b'{"cards": [{"id": "s", "model": "m", "memory_bytes": 1, "index": 0, "target": "gfx90a"}]}',
        b'{"cards": [{"id": "\xff"}]}',
        b'{"x":' + b"[" * 90_000,
    ],
    ids=lambda content: repr(content[:20]),
)
def test_invalid_list_of_simulated_cards_is_an_error(listing, find, content):
    listing.write_bytes(content)
    with pytest.raises(DevicePluginError, match="cannot read "):
        find()


def test_list_of_simulated_cards_that_is_not_a_file_is_an_error(listing, find):
    listing.unlink()
    listing.mkdir()
    with pytest.raises(DevicePluginError, match="cannot read "):
        find()
