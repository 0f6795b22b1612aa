from dataclasses import replace

import pytest

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card, Health
from accelkit.node.discovery import FoundCard
from accelkit.node.health import HealthChecks, HealthMonitor
from accelkit.vendors.profiles import load_profiles

BDF = "0000:19:00.0"
NODE = "/dev/gcu0"
OFF_THE_BUS = "the driver reported XID 79 (the card has fallen off the bus): drain the node and reset the card"


class Host:
    """One card's files, and a monitor that looks at them every ten seconds."""

    def __init__(self, root, checks=HealthChecks.ALL):
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
        self.boot("1")
        self.now = 0.0
        self.reports = {}
        self.monitor = HealthMonitor(
            root, nodes=lambda _: [NODE], checks=checks, reported=lambda: self.reports, clock=lambda: self.now
        )
        card = Card("c", "enflame", "S60", 1, bdf=BDF)
        self.found = FoundCard(card, 0, 0, load_profiles()["simulated"])

    def write(self, name, text):
        (self.device / name).write_text(text)

    def boot(self, digit):
        file = self.root / "proc/sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{digit * 36}\n")

    def report(self, *xids):
        self.reports = {"c": xids}

    def look(self, times=1):
        for _ in range(times):
            self.now += 10
            found = self.monitor.observe([self.found])
            self.reports = {}
        return found.get("c")


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    assert host.look(2) == (Health.HEALTHY, "")
    return host


def gone(host):
    host.device.rename(host.root / "elsewhere")


def unbound(host):
    (host.device / "driver").unlink()


def bound_again(host):
    # The former link keeps its inode number, which the file system would otherwise give to the new one.
    (host.device / "driver").rename(host.root / "former-link")
    (host.device / "driver").symlink_to(host.drivers / "enflame")


def taken(host):
    unbound(host)
    (host.device / "driver").symlink_to(host.drivers / "vfio-pci")


def off_the_bus(host):
    (host.device / "config").write_bytes(b"\xff" * 64)


@pytest.mark.parametrize(
    ("worsen", "reason"),
    [
        (gone, "the card is gone from the PCI bus; the driver enflame"),
        (unbound, "the driver enflame is no longer bound to the card"),
        (taken, "the driver vfio-pci is bound to the card instead of enflame"),
        (off_the_bus, "the card does not answer on the PCI bus"),
        (lambda host: host.write("current_link_width", "4\n"), "its PCI link uses only 4 of 16 lanes"),
        (lambda host: (host.root / NODE[1:]).unlink(), "device node /dev/gcu0 is missing"),
    ],
)
def test_problem_makes_card_unhealthy_only_at_second_check(host, worsen, reason):
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
def test_repeated_uncorrected_errors_make_card_unhealthy(host, name, worse):
    host.write(name, worse.format(4))
    assert host.look() == (Health.HEALTHY, "")
    host.write(name, worse.format(6))
    assert host.look() == (Health.UNHEALTHY, f"2 uncorrected errors in {name.removeprefix('ras/')}")


def test_errors_before_first_check_and_corrected_errors_are_ignored(host):
    host.write("aer_dev_correctable", "TOTAL_ERR_COR 500\n")
    host.write("ras/umc_err_count", "ue: 0\nce: 500\n")
    assert host.look(3) == (Health.HEALTHY, "")


def test_card_is_healthy_again_after_five_minutes_without_problems(host):
    host.write("current_link_width", "4\n")
    assert host.look(2)[0] is Health.UNHEALTHY
    host.write("current_link_width", "16\n")
    assert host.look(29)[0] is Health.UNHEALTHY
    assert host.look(2) == (Health.HEALTHY, "")


def test_fault_does_not_expire(host):
    host.report(79)
    assert host.look(1000) == (Health.UNHEALTHY, OFF_THE_BUS)


@pytest.mark.parametrize(("xid", "mended"), [(79, True), (54, True), (64, False)])
@pytest.mark.parametrize("start", ["machine", "driver"])
def test_reboot_or_driver_restart_clears_faults_that_reset_repairs(host, xid, mended, start):
    host.report(xid)
    assert host.look()[0] is Health.UNHEALTHY
    if start == "machine":
        host.boot("2")
    else:
        bound_again(host)
    assert (host.look(1)[0] is Health.HEALTHY) == mended


@pytest.mark.parametrize("seen", ["before it is gone", "when it is gone"])
def test_fault_of_card_off_the_bus_is_cleared_when_card_and_driver_return(host, seen):
    host.report(79)
    if seen == "before it is gone":
        host.look()
    host.device.rename(host.root / "aside")
    assert host.look(2)[0] is Health.UNHEALTHY
    assert list(host.monitor.list_faults()) == ["c"]
    (host.root / "aside").rename(host.device)
    former = host.device / "driver"
    former.rename(host.root / "former-link")
    assert host.look(2)[0] is Health.UNHEALTHY
    assert list(host.monitor.list_faults()) == ["c"]
    former.symlink_to(host.drivers / "enflame")
    host.look()
    assert host.monitor.list_faults() == {}
    assert host.look(40)[0] is Health.HEALTHY


def test_fault_with_unknown_driver_start_is_not_cleared_by_known_start(host):
    host.boot("")
    host.report(79)
    host.look()
    host.boot("2")
    assert host.look(3)[0] is Health.UNHEALTHY


@pytest.mark.parametrize("xid", [13, 43, 94, 63, 154, 4711])
def test_xids_without_fault_do_not_make_card_unhealthy(host, xid):
    host.report(xid)
    assert host.look() == (Health.HEALTHY, "")
    assert host.monitor.take_xids() == [("c", xid)]
    assert host.monitor.take_xids() == []


def test_first_fault_is_reported_unless_later_fault_requires_replacement(host):
    host.report(48, 79)
    assert "XID 48" in host.look()[1]
    host.report(64)
    assert host.look()[1].endswith("replace the card")
    host.report(79)
    assert host.look()[1].endswith("replace the card")


def test_other_problem_is_reported_with_fault(host):
    host.report(79)
    unbound(host)
    host.look()
    assert host.look()[1] == f"{OFF_THE_BUS}; the driver enflame is no longer bound to the card"


def test_clear_fault_makes_card_healthy(host):
    assert host.monitor.clear_fault("c") is False
    host.report(64)
    host.look()
    assert host.monitor.clear_fault("c") is True
    assert host.look() == (Health.HEALTHY, "")
    assert (host.monitor.list_faults(), host.monitor.clear_fault("other")) == ({}, False)


def test_new_agent_restores_faults_of_former_agent(host):
    host.report(79)
    host.look()
    faults = host.monitor.list_faults()
    host.monitor = HealthMonitor(host.root, nodes=lambda _: [NODE])
    host.monitor.remember_fault("c", faults["c"])
    assert host.look() == (Health.UNHEALTHY, OFF_THE_BUS)
    host.boot("2")
    assert host.look() == (Health.HEALTHY, "")


@pytest.mark.parametrize("text", ["", "xid 79", "xid ² at x", "xid 79 at /etc"])
def test_invalid_recorded_fault_is_ignored(host, text):
    host.monitor = HealthMonitor(host.root, nodes=lambda _: [NODE])
    host.monitor.remember_fault("c", text)
    assert host.look() == (Health.HEALTHY, "")


def test_unreadable_sysfs_makes_card_unknown_but_not_unhealthy(host):
    (host.root / "sys").rename(host.root / "elsewhere")
    assert host.look(5) == (Health.UNKNOWN, "sys/bus/pci/devices cannot be read")


def test_unhealthy_card_remains_unhealthy_while_sysfs_is_unreadable(host):
    unbound(host)
    assert host.look(2)[0] is Health.UNHEALTHY
    (host.root / "sys").rename(host.root / "elsewhere")
    assert host.look(60)[0] is Health.UNHEALTHY


def test_files_that_never_existed_are_not_required(tmp_path):
    host = Host(tmp_path)
    for name in ("driver", "config", "current_link_width"):
        (host.device / name).unlink()
    (tmp_path / NODE[1:]).unlink()
    assert host.look(5) == (Health.HEALTHY, "")


def test_health_checks_can_be_disabled(tmp_path):
    host = Host(tmp_path, HealthChecks.NONE)
    unbound(host)
    assert host.look(5) is None


def test_xid_checks_can_be_disabled_separately(tmp_path):
    host = Host(tmp_path, HealthChecks.FILES)
    host.report(79)
    assert host.look(3) == (Health.HEALTHY, "")
    unbound(host)
    assert host.look(2)[0] is Health.UNHEALTHY


def test_card_with_unknown_device_nodes_is_unhealthy(tmp_path):
    host = Host(tmp_path)

    def unknown(_found):
        raise DevicePluginError("the device nodes of card c are not known")

    host.monitor = HealthMonitor(tmp_path, nodes=unknown, clock=lambda: host.now)
    assert host.look(2) == (Health.UNHEALTHY, "the device nodes of card c are not known")


def test_card_bound_to_driver_of_another_vendor_is_unhealthy(tmp_path):
    host = Host(tmp_path)
    host.found = replace(host.found, driver="vfio-pci", profile=load_profiles()["nvidia"])
    health, reason = host.look(2)
    assert health is Health.UNHEALTHY
    assert reason == "the driver vfio-pci is bound to the card, which is not the vendor's (nvidia)"


def test_xid_of_card_makes_its_parts_unhealthy(host):
    host.found = replace(host.found, part_of="GPU-parent")
    host.reports = {"GPU-parent": (79,)}
    assert host.monitor.observe([host.found])["c"][0] is Health.UNHEALTHY
