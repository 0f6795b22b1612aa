from __future__ import annotations

import json

import pytest

from accelkit.errors import DevicePluginError
from accelkit.model.card import Health
from accelkit.node.discovery import discover
from accelkit.vendors.profiles import load_profiles

PROFILES = load_profiles()
INFORMATION = "Model: \t\t NVIDIA A100-SXM4-80GB\nGPU UUID: \t GPU-{bdf}\nDevice Minor: \t {minor}\nBlacklisted:\t No\n"


@pytest.fixture
def plug(tmp_path):
    """Put a PCI device into the tree below tmp_path."""

    def plug(bdf, *, vendor="0x10de", klass="0x030200", device="0x20b2", numa="0\n", facts=None):
        real = tmp_path / "sys/devices/pci0000:3a" / bdf
        real.mkdir(parents=True)
        for name, text in {"vendor": vendor, "class": klass, "device": device, "numa_node": numa}.items():
            if text is not None:
                (real / name).write_text(text)
        listed = tmp_path / "sys/bus/pci/devices"
        listed.mkdir(parents=True, exist_ok=True)
        (listed / bdf).symlink_to(real)
        if facts is not None:
            folder = tmp_path / "proc/driver/nvidia/gpus" / bdf
            folder.mkdir(parents=True)
            (folder / "information").write_text(INFORMATION.format(bdf=bdf, minor=facts))

    return plug


@pytest.fixture
def find(tmp_path):
    return lambda *names: discover(tmp_path, [PROFILES[name] for name in names or ("nvidia",)])


def test_a_card_is_known_by_what_its_driver_says(plug, find):
    plug("0000:3b:00.0", facts=5)
    (found,) = find()
    card = found.card
    assert (card.id, card.vendor, card.model) == ("GPU-0000:3b:00.0", "nvidia", "NVIDIA A100-SXM4-80GB")
    assert (card.memory_bytes, card.numa, card.pci_root) == (81920 * 2**20, 0, "pci0000:3a")
    assert (found.index, found.minor) == (0, 5)


def test_a_card_without_a_driver_is_known_by_its_location(plug, find):
    plug("0000:3b:00.0")
    (found,) = find()
    assert (found.card.id, found.card.model) == ("0000:3b:00.0-20b2", "NVIDIA A100-SXM4-80GB")
    # Another card's device node would be given if the number were guessed.
    assert (found.index, found.minor) == (0, None)


@pytest.mark.parametrize(
    ("wrong", "value"), [("klass", "0x068000"), ("klass", "0x040300"), ("vendor", "0x1002"), ("vendor", None)]
)
def test_switches_sound_and_other_vendors_are_no_cards(plug, find, wrong, value):
    plug("0000:3b:00.0", **{wrong: value})
    plug("0000:3c:00.0", klass="0x030000")
    assert [found.card.id for found in find()] == ["0000:3c:00.0-20b2"]


def test_memory_of_an_unknown_device_is_unknown(plug, find):
    plug("0000:3b:00.0", device="0xffff")
    assert find()[0].card.memory_bytes is None


@pytest.mark.parametrize(("numa", "expected"), [("1\n", 1), ("-1\n", None), ("", None), (None, None)])
def test_a_numa_node_that_the_kernel_does_not_know_is_unknown(plug, find, numa, expected):
    plug("0000:3b:00.0", numa=numa)
    assert find()[0].card.numa == expected


def test_cards_are_numbered_in_the_order_of_their_location_over_all_vendors(plug, find, tmp_path):
    for bdf in ("0000:af:00.0", "0000:3b:00.0"):
        plug(bdf)
    listed = {"cards": [{"id": "s", "model": "m", "memory_bytes": 1, "index": 0}]}
    path = tmp_path / "etc/accelkit/simulated-cards.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(listed))
    found = find("simulated", "nvidia")
    assert [(each.index, each.card.id) for each in found] == [
        (0, "s"),
        (1, "0000:3b:00.0-20b2"),
        (2, "0000:af:00.0-20b2"),
    ]


def test_a_host_without_cards_has_none(find):
    assert find("nvidia", "simulated") == []


@pytest.fixture
def listing(tmp_path):
    path = tmp_path / "etc/accelkit/simulated-cards.json"
    path.parent.mkdir(parents=True)
    return path


def test_listed_cards_are_taken_as_they_are_listed(listing, find):
    card = {"id": "s", "model": "m", "memory_bytes": 16, "index": 3, "numa": 1, "health": "unhealthy"}
    listing.write_text(json.dumps({"cards": [card]}))
    (found,) = find("simulated")
    assert (found.index, found.minor, found.card.memory_bytes, found.card.numa) == (3, 3, 16, 1)
    assert found.card.health is Health.UNHEALTHY
    assert found.card.target == ""


def test_a_listed_card_may_say_what_its_kernels_are_compiled_for(listing, find):
    card = {"id": "s", "model": "m", "memory_bytes": 16, "index": 0, "target": "hip:gfx90a:sramecc+:xnack-"}
    listing.write_text(json.dumps({"cards": [card]}))
    (found,) = find("simulated")
    assert (found.card.vendor, found.card.target) == ("simulated", card["target"])


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
def test_a_list_of_cards_that_cannot_be_read_is_an_error_and_not_a_host_without_cards(listing, find, content):
    listing.write_bytes(content)
    with pytest.raises(DevicePluginError, match="cannot be read"):
        find("simulated")


def test_a_list_of_cards_that_is_no_file_is_an_error(listing, find):
    listing.mkdir()
    with pytest.raises(DevicePluginError, match="cannot be read"):
        find("simulated")
