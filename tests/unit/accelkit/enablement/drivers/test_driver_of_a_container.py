"""A driver comes to a bare host and leaves it: discovery, health and the stages follow, for each vendor."""

import msgspec
import pytest
from standin_driver import StandinDriver

from accelkit.inspection.card_faults import find_card_fault, find_driver_fault
from accelkit.inspection.provided_driver import build_label
from accelkit.model.inventory import Inventory
from accelkit.node.device_plugin.container_response import list_card_nodes
from accelkit.node.discovery import discover
from accelkit.node.discovery.drivers import list_missing_drivers
from accelkit.node.discovery.libraries import LibraryState, find_library
from accelkit.node.health.monitor import HealthMonitor
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.vendors.profiles import load_profiles

KERNEL, OTHER = "6.1.0-18-amd64", "6.1.0-20-amd64"
CARDS = {"nvidia": "H100", "amd": "MI300X", "intel": "Max 1550", "enflame": "S60", "gaudi": "Gaudi2"}


class Node:
    """A host of one vendor's cards without a driver, as an agent looks at it time and again."""

    def __init__(self, root, vendor, model):
        self.root, self.profile = root, load_profiles()[vendor]
        self.host = FakeHost(root).add(vendor, 2, model)
        for card in self.host.cards:
            self.host.unbind(card.bdf)
        self.now = 0.0
        self.monitor = HealthMonitor(root, nodes=list_card_nodes, clock=lambda: self.now)

    def look(self):
        """The inventory after so much time that what lasts is believed."""
        for _ in range(2):
            self.now += 600
            found = discover(self.root, [self.profile])
            health = self.monitor.observe(found)
        cards = [(each.card, *health[each.card.id]) for each in found]
        return Inventory(
            1, tuple(msgspec.structs.replace(card, health=state, health_reason=why) for card, state, why in cards)
        )

    def tell_missing(self):
        return list_missing_drivers(discover(self.root, [self.profile]))

    def find_libraries(self):
        return {find_library(self.root, name).state for name in self.profile.libraries}


@pytest.fixture(params=CARDS.items(), ids=CARDS)
def node(request, tmp_path):
    return Node(tmp_path, *request.param)


def test_driver_is_detected_after_load_and_missing_after_unload(node):
    assert len(node.tell_missing()) == 2
    driver = StandinDriver(node.host, KERNEL)
    assert driver.load(KERNEL)
    assert node.tell_missing() == []
    there = node.look()
    assert find_driver_fault(there) is None
    assert find_card_fault(there, kernel=KERNEL, chosen=build_label(KERNEL)) is None
    assert node.find_libraries() <= {LibraryState.PRESENT}
    driver.unload()
    gone = node.look()
    fault = find_driver_fault(gone)
    assert (fault.code, fault.known) == ("DriverMissing", True)
    assert len(node.tell_missing()) == 2
    assert node.find_libraries() <= {LibraryState.MISSING}


def test_driver_of_former_kernel_does_not_load_after_kernel_update(node):
    driver = StandinDriver(node.host, KERNEL)
    assert driver.load(KERNEL)
    seen = node.look()
    driver.unload()
    assert not driver.load(OTHER)
    assert find_card_fault(seen, kernel=OTHER, chosen=build_label(KERNEL)).code == "KernelDriverMismatch"
    assert find_driver_fault(node.look()).code == "DriverMissing"
    assert StandinDriver(node.host, OTHER).load(OTHER)
    again = node.look()
    assert find_driver_fault(again) is None
    assert find_card_fault(again, kernel=OTHER, chosen=build_label(OTHER)) is None
    assert [card.id for card in again.cards] == [card.id for card in seen.cards]


def test_unload_restores_files_that_existed_before_load(node):
    def read():
        return {
            str(path.relative_to(node.root)): path.read_bytes() if path.is_file() else b""
            for path in node.root.rglob("*")
            # What udev makes stays until a reboot, and folders of libraries are the host's.
            if not path.is_relative_to(node.root / "dev") and not path.is_dir()
        }

    driver = StandinDriver(node.host, KERNEL)
    driver.load(KERNEL)
    driver.unload()
    before = read()
    driver.load(KERNEL)
    assert read() != before
    driver.unload()
    assert read() == before
