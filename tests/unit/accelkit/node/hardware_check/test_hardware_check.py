import json
from dataclasses import replace

import pynvml
import pytest
from click.testing import CliRunner
from standin_nvml import StandinCard
from support.host_processes import write_process

from accelkit.cli import main
from accelkit.sandbox.fake_host.host import FakeHost

GIB = 2**30


@pytest.fixture
def host(tmp_path, standin_nvml):
    """A machine with a card of NVIDIA's, its driver, a process on it, and cgroups of version 2."""
    host = FakeHost(tmp_path / "host").add("nvidia", 1, "H200")
    (bdf,) = [card.bdf for card in host.cards]
    host.bdf = bdf
    host.driver = standin_nvml
    standin_nvml.cards.append(StandinCard(bdf, "GPU-1", total=141 * GIB, reserved=GIB))
    standin_nvml.processes.append((bdf, 7, 3 * GIB, "compute"))
    standin_nvml.write()
    write_process(host.root, 7, "train", cgroup="/user.slice", files={4: "/dev/nvidia0"})
    write_process(host.root, 8, "bash", cgroup="/user.slice")
    host.write("sys/fs/cgroup/cgroup.controllers", "memory")
    host.write("sys/fs/cgroup/cgroup.procs", "")
    return host


def check(host, *arguments):
    done = CliRunner().invoke(main, ["hardware-check", "--host-root", str(host.root), *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def read(host):
    return json.loads(check(host, "-o", "json"))


def missing(host):
    return [each["what"] for each in read(host)["missing"]]


def test_machine_with_all_requirements_has_no_missing_items(host):
    report = read(host)
    (card,) = report["cards"]
    assert report["missing"] == []
    assert report["nvidia_driver"] == "615.71.09"
    assert (card["card"]["id"], card["card"]["memory_source"], card["memory_limits"]) == ("GPU-1", "nvml", "")
    assert card["device_nodes"] == ["/dev/nvidia0"]
    assert [(each["pid"], each["command"], each["memory_bytes"]) for each in card["processes"]] == [
        (7, "train", 3 * GIB)
    ]


def test_default_output_is_a_table(host):
    text = check(host)
    assert "NVIDIA's driver: 615.71.09" in text
    assert "1, 3 GiB" in text
    assert text.count("nvml") == 2


def test_mps_daemon_is_found_in_configured_folder(host):
    (write_process(host.root, 9, "nvidia-cuda-mps-control"[:15], cgroup="/") / "environ").touch()
    host.write("run/mps/nvidia-cuda-mps-control.pid", "9")
    host.write("run/mps/control", "")
    (host.root / "run/mps/shm").mkdir()
    report = json.loads(check(host, "-o", "json", "--mps-folder", "/run/mps"))
    assert report["cards"][0]["card"]["enforcement"] == "mps"


def test_a_driver_without_memory_limits_is_reported(host):
    host.driver.failures["nvmlDeviceGetMemoryLimits_v1"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    host.driver.write()
    (told,) = missing(host)
    assert told.startswith("no memory limits on card GPU-1: the driver does not support memory limits")
    host.driver.failures.clear()
    host.driver.cards[0] = replace(host.driver.cards[0], mig=True)
    host.driver.write()
    assert missing(host) == ["no memory limits on card GPU-1: the card is in MIG mode"]


def test_missing_driver_is_reported(host):
    host.driver.path.unlink()
    report = read(host)
    assert report["nvidia_driver"] is None
    assert report["missing"][0]["what"] == "NVIDIA's library or driver does not respond"
    assert "the memory of card" in report["missing"][1]["what"]


def test_unhealthy_card_and_missing_cgroups_are_reported(host):
    (host.root / "sys/fs/cgroup/cgroup.controllers").unlink()
    (host.find_device_folder(host.bdf) / "config").write_bytes(4 * b"\xff")
    assert missing(host) == [
        "card GPU-1 is unhealthy: the card does not answer on the PCI bus",
        "cgroups of version 2 are missing",
    ]


def test_machine_without_cards_is_not_an_error(tmp_path):
    (tmp_path / "proc/7/fd").mkdir(parents=True)
    done = CliRunner().invoke(main, ["hardware-check", "--host-root", str(tmp_path), "-o", "json"])
    assert json.loads(done.stdout)["missing"][0]["what"] == "no card was found"
    assert CliRunner().invoke(main, ["hardware-check", "--host-root", str(tmp_path / "x")]).exit_code == 1
