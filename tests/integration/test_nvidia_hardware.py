"""What an NVIDIA card itself says: discovery, health and the memory of a real process. Needs a card and its driver."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from accelkit.model.card import Health
from accelkit.node.device_plugin.container_response import list_card_nodes
from accelkit.node.discovery import compute_topology, survey
from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.enforcement.mps import MpsFolders
from accelkit.node.hardware_check.report import check_hardware
from accelkit.node.health import HealthMonitor
from accelkit.node.processes.nvml import read_used_memory
from accelkit.node.processes.scan import Processes, add_nvml
from accelkit.vendors.profiles import load_profiles

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(load_nvml() is None, reason="no NVIDIA card here: libnvidia-ml.so.1 does not load"),
]

ROOT = Path("/")
MIB = 2**20


@pytest.fixture
def cards():
    return survey(ROOT, [load_profiles()["nvidia"]]).cards


def check(result: int) -> None:
    assert result == 0, f"CUDA says {result}"


@pytest.fixture
def allocated():
    """512 MiB of the first card, held by this process through the driver's own interface."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuInit(0))
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(512 * MIB)))
    yield 512 * MIB
    check(cuda.cuMemFree_v2(memory))
    check(cuda.cuCtxDestroy_v2(context))


def test_cards_are_discovered_with_data_from_nvml(cards):
    assert cards
    for each in cards:
        assert each.card.id.startswith("GPU-")
        assert (each.card.memory_source, each.card.estimated) == ("nvml", False)
        assert each.card.driver_version
        assert each.card.capacity_bytes > 0
        assert all(Path(path).exists() for path in list_card_nodes(each))
    assert [row[number] for number, row in enumerate(compute_topology(ROOT, cards))] == ["X"] * len(cards)


def test_health_monitor_reports_real_cards_as_healthy(cards):
    monitor = HealthMonitor(ROOT, nodes=list_card_nodes)
    for _ in range(3):
        found = monitor.observe(cards)
    assert {health for health, _ in found.values()} == {Health.HEALTHY}, found


def test_hardware_check_finds_driver_processes_and_memory_limits(cards, allocated):
    report = check_hardware(ROOT, cards, load_nvml(), mps=MpsFolders())
    assert report.nvidia_driver
    assert os.getpid() in [process.pid for each in report.cards for process in each.processes]
    # Why not, where the driver is older: what each card says stands in the report.
    assert all(each.memory_limits is not None for each in report.cards)


def test_memory_of_real_process_is_measured(cards, allocated):
    bdfs = {each.card.bdf: each.card.id for each in cards}
    used = read_used_memory(load_nvml(), bdfs).amounts
    ours = [each for each in add_nvml(ROOT, Processes((), 0), used).found if each.pid == os.getpid()]
    assert ours
    assert max(each.memory_bytes or 0 for each in ours) >= allocated
