"""The version of the driver is in the inventory where library or driver tell it, and nothing else is."""

import pytest

from accelkit.model.card import MAX_DRIVER_VERSION
from accelkit.node.discovery import Nvml


def test_driver_version_is_read_from_nvml_for_known_cards(host, find, fake_nvml):
    known, other = host.add("nvidia", 2, "T4").cards
    found = find(Nvml(fake_nvml({known.bdf: {}}, driver=b"550.54.14")))
    assert {each.card.bdf: each.card.driver_version for each in found} == {known.bdf: "550.54.14", other.bdf: ""}


@pytest.mark.parametrize(
    ("vendor", "model", "driver"),
    [("nvidia", "T4", "nvidia"), ("amd", "MI300X", "amdgpu"), ("intel", "Flex 170", "i915"), ("intel", "B580", "xe")],
)
def test_driver_version_is_read_from_module_without_library(host, find, vendor, model, driver):
    host.add(vendor, 1, model)
    assert find()[0].card.driver_version == ""
    host.write(f"sys/module/{driver}/version", "6.8.5\n")
    assert find()[0].card.driver_version == "6.8.5"


@pytest.mark.parametrize("text", ["", "\n", "unknown", "5 5", "5" * (MAX_DRIVER_VERSION + 1), "5\n5"])
def test_invalid_driver_version_is_unknown(host, find, text):
    host.add("nvidia", 1, "T4")
    host.write("sys/module/nvidia/version", text)
    assert find()[0].card.driver_version == ""


def test_driver_version_of_nvml_precedes_version_of_module(host, find, fake_nvml):
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    host.write("sys/module/nvidia/version", "1.0\n")
    assert find(Nvml(fake_nvml({bdf: {}}, driver="2.0")))[0].card.driver_version == "2.0"
    assert find(Nvml(fake_nvml({bdf: {}})))[0].card.driver_version == "1.0"
