from __future__ import annotations

from dataclasses import replace

import pytest

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card, Health
from accelkit.node.discovery import FoundCard
from accelkit.node.health import HealthMonitor
from accelkit.vendors.profiles import load_profiles

BDF = "0000:19:00.0"
NODE = "/dev/gcu0"


class Host:
    """One card's files, and a monitor that looks at them every ten seconds."""

    def __init__(self, root, environ):
        self.root = root
        self.device = root / "sys/bus/pci/devices" / BDF
        self.device.mkdir(parents=True)
        (root / "dev").mkdir()
        (root / NODE[1:]).touch()
        drivers = root / "sys/bus/pci/drivers"
        for name in ("enflame", "vfio-pci"):
            (drivers / name).mkdir(parents=True)
        self.drivers = drivers
        (self.device / "driver").symlink_to(drivers / "enflame")
        (self.device / "config").write_bytes(b"\x36\x1e\x01\x80" + bytes(60))
        self.write("current_link_width", "16\n")
        self.write("aer_dev_fatal", "Undefined 0\nDLP 3\nTOTAL_ERR_FATAL 3\n")
        self.write("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL 0\n")
        self.write("aer_dev_correctable", "TOTAL_ERR_COR 1\n")
        (self.device / "ras").mkdir()
        self.write("ras/umc_err_count", "ue: 0\nce: 0\n")
        self.now = 0.0
        self.reports = {}
        self.monitor = HealthMonitor(
            root, environ=environ, nodes=lambda _: [NODE], reported=lambda: self.reports, clock=lambda: self.now
        )
        card = Card("c", "enflame", "S60", 1, bdf=BDF)
        self.found = FoundCard(card, 0, 0, load_profiles()["simulated"])

    def write(self, name, text):
        (self.device / name).write_text(text)

    def look(self, times=1):
        for _ in range(times):
            self.now += 10
            found = self.monitor.observe([self.found])
        return found.get("c")


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path, {})
    assert host.look(2) == (Health.HEALTHY, "")
    return host


def gone(host):
    host.device.rename(host.root / "elsewhere")


def unbound(host):
    (host.device / "driver").unlink()


def taken(host):
    unbound(host)
    (host.device / "driver").symlink_to(host.drivers / "vfio-pci")


def off_the_bus(host):
    (host.device / "config").write_bytes(b"\xff" * 64)


@pytest.mark.parametrize(
    ("worsen", "reason"),
    [
        (gone, "the card is gone from the PCI bus; the driver enflame"),
        (unbound, "the driver enflame is not bound to it any more"),
        (taken, "the driver vfio-pci has taken it from enflame"),
        (off_the_bus, "the card does not answer on the PCI bus"),
        (lambda host: host.write("current_link_width", "4\n"), "its PCI link is down to 4 of 16 lanes"),
        (lambda host: (host.root / NODE[1:]).unlink(), "device node /dev/gcu0 is missing"),
    ],
)
def test_what_lasts_makes_a_card_unhealthy_and_not_what_is_seen_once(host, worsen, reason):
    worsen(host)
    assert host.look() == (Health.HEALTHY, "")
    health, said = host.look()
    assert health is Health.UNHEALTHY
    assert said.startswith(reason.partition(";")[0])


@pytest.mark.parametrize(
    ("name", "worse"),
    [
        ("aer_dev_fatal", "DLP 4\nTOTAL_ERR_FATAL {}\n"),
        ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL {}\n"),
        ("ras/umc_err_count", "ue: {}\nce: 9\n"),
    ],
)
def test_uncorrected_errors_that_go_on_make_a_card_unhealthy(host, name, worse):
    host.write(name, worse.format(4))
    assert host.look() == (Health.HEALTHY, "")
    host.write(name, worse.format(6))
    assert host.look() == (Health.UNHEALTHY, f"2 uncorrected errors in {name.removeprefix('ras/')}")


def test_errors_from_before_the_first_look_and_corrected_ones_do_not_count(host):
    host.write("aer_dev_correctable", "TOTAL_ERR_COR 500\n")
    host.write("ras/umc_err_count", "ue: 0\nce: 500\n")
    assert host.look(3) == (Health.HEALTHY, "")


def test_a_card_is_healthy_again_only_after_some_quiet_minutes(host):
    host.write("current_link_width", "4\n")
    assert host.look(2)[0] is Health.UNHEALTHY
    host.write("current_link_width", "16\n")
    assert host.look(29)[0] is Health.UNHEALTHY
    assert host.look(2) == (Health.HEALTHY, "")


def test_what_the_driver_reports_counts_at_once(host):
    host.reports = {"c": "the driver reported XID 79"}
    assert host.look() == (Health.UNHEALTHY, "the driver reported XID 79")
    host.reports = {}
    assert host.look(29)[0] is Health.UNHEALTHY
    assert host.look(2)[0] is Health.HEALTHY


def test_a_tree_that_cannot_be_read_makes_a_card_unknown_and_not_unhealthy(host):
    (host.root / "sys").rename(host.root / "elsewhere")
    assert host.look(5) == (Health.UNKNOWN, "sys/bus/pci/devices cannot be read")


def test_an_unhealthy_card_stays_so_while_nothing_can_be_read(host):
    unbound(host)
    assert host.look(2)[0] is Health.UNHEALTHY
    (host.root / "sys").rename(host.root / "elsewhere")
    assert host.look(60)[0] is Health.UNHEALTHY


def test_what_a_card_never_had_is_not_missed(tmp_path):
    host = Host(tmp_path, {})
    for name in ("driver", "config", "current_link_width"):
        (host.device / name).unlink()
    (tmp_path / NODE[1:]).unlink()
    assert host.look(5) == (Health.HEALTHY, "")


@pytest.mark.parametrize("switch", ["ACCELKIT_DISABLE_HEALTH", "DP_DISABLE_HEALTHCHECKS"])
def test_health_can_be_switched_off(tmp_path, switch):
    host = Host(tmp_path, {switch: "all"})
    unbound(host)
    assert host.look(5) is None


def test_reports_of_the_driver_can_be_switched_off_alone(tmp_path):
    host = Host(tmp_path, {"DP_DISABLE_HEALTHCHECKS": "xids"})
    host.reports = {"c": "the driver reported XID 79"}
    assert host.look(3) == (Health.HEALTHY, "")


def test_a_card_whose_device_nodes_are_not_known_takes_nobody(tmp_path):
    host = Host(tmp_path, {})

    def unknown(_found):
        raise DevicePluginError("the device nodes of card c are not known")

    host.monitor = HealthMonitor(tmp_path, environ={}, nodes=unknown, clock=lambda: host.now)
    assert host.look(2) == (Health.UNHEALTHY, "the device nodes of card c are not known")


def test_a_card_that_another_driver_has_takes_nobody(tmp_path):
    host = Host(tmp_path, {})
    host.found = replace(host.found, driver="vfio-pci", profile=load_profiles()["nvidia"])
    health, reason = host.look(2)
    assert health is Health.UNHEALTHY
    assert reason == "the driver vfio-pci has it, which is not the vendor's (nvidia)"
