from pathlib import Path

import pynvml
import pytest
from standin_nvml import NO_LIMIT, Limits, StandinCard, StandinNvml
from standin_nvml.state import STATE_VARIABLE

from accelkit.node.discovery import LibraryState
from accelkit.node.discovery.nvml import NvmlCard, nvml_session
from accelkit.node.processes.nvml import UsedMemory, read_used_memory

FIRST, SECOND = "0000:3b:00.0", "0000:5e:00.0"
GIB = 2**30


@pytest.fixture
def cards(standin_nvml):
    standin_nvml.cards += [
        StandinCard(FIRST, "GPU-11111111-0000-0000-0000-000000000000", 0, links=(SECOND, "switch")),
        StandinCard(SECOND, "GPU-22222222-0000-0000-0000-000000000000", 1, "NVIDIA T4", 16 * GIB, 0, mig=True),
    ]
    standin_nvml.write()
    return standin_nvml


@pytest.fixture
def session(cards):
    pynvml.nvmlInit()
    yield cards
    pynvml.nvmlShutdown()


@pytest.fixture
def cgroup(tmp_path):
    folder = tmp_path / "cgroup"
    folder.mkdir()
    (folder / "cgroup.procs").touch()
    return folder


def set_limits(bdf, cgroup, hard, soft=0):
    limits = pynvml.c_nvmlSetMemoryLimits_v1_t(str(cgroup).encode(), soft, hard)
    pynvml.nvmlDeviceSetMemoryLimits_v1(pynvml.nvmlDeviceGetHandleByPciBusId(bdf), limits)


def get_limits(bdf, cgroup):
    limits = pynvml.c_nvmlGetMemoryLimits_v1_t(str(cgroup).encode())
    pynvml.nvmlDeviceGetMemoryLimits_v1(pynvml.nvmlDeviceGetHandleByPciBusId(bdf), limits)
    return Limits(limits.softLimit, limits.hardLimit)


def test_card_has_properties_of_state_file(cards, tmp_path):
    with nvml_session(tmp_path) as (nvml, library):
        assert library.state is LibraryState.WORKS
        first = nvml.find_card("00000000:3B:00.0")
        assert nvml.find_card("0000:99:00.0") is None
    assert first == NvmlCard(cards.cards[0].uuid, "NVIDIA H200", 0, 141 * GIB, GIB, linked={SECOND: 1}, switched=True)


def test_library_without_state_file_reports_no_driver(cards, tmp_path):
    cards.path.unlink()
    with nvml_session(tmp_path) as (nvml, library):
        assert (nvml, library.state) == (None, LibraryState.SILENT)


def test_state_file_beside_library_is_default(cards, standin_library, monkeypatch):
    monkeypatch.delenv(STATE_VARIABLE)
    beside = StandinNvml(standin_library.parent / "standin-nvml", driver="615.1")
    beside.write()
    try:
        pynvml.nvmlInit()
        assert (pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlDeviceGetCount()) == ("615.1", 0)
        pynvml.nvmlShutdown()
    finally:
        beside.path.unlink()


@pytest.mark.parametrize(
    ("make", "error"),
    [(Path.exists, pynvml.NVMLError_DriverNotLoaded), (Path.mkdir, pynvml.NVMLError_NoPermission)],
    ids=["missing", "refused"],
)
def test_nvml_fails_without_control_device_node(cards, tmp_path, make, error):
    cards.control = tmp_path / "nvidiactl"
    make(cards.control)
    cards.write()
    with pytest.raises(error):
        pynvml.nvmlInit()
    with nvml_session(tmp_path) as (nvml, library):
        assert (nvml, library.state) == (None, LibraryState.SILENT)


def test_processes_of_all_kinds_are_reported_with_memory(cards):
    cards.processes += [(FIRST, 7, GIB, "compute"), (FIRST, 8, None, "graphics"), (SECOND, 9, 5, "mps")]
    cards.write()
    used = read_used_memory(pynvml, {FIRST: "a", SECOND: "b", "0000:99:00.0": "c"})
    assert used == UsedMemory({("a", 7): GIB, ("a", 8): None, ("b", 9): 5}, frozenset("ab"))


def test_xid_event_is_sent_only_to_registered_listeners(session):
    session.raise_xid(FIRST, 13)
    events = pynvml.nvmlEventSetCreate()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    session.raise_xid(SECOND, 48)
    session.raise_xid(FIRST, 79)
    event = pynvml.nvmlEventSetWait_v2(events, 100)
    assert (event.eventData, pynvml.nvmlDeviceGetUUID(event.device)) == (79, session.cards[0].uuid)
    with pytest.raises(pynvml.NVMLError_Timeout):
        pynvml.nvmlEventSetWait_v2(events, 1)


def test_memory_limits_of_cgroup_are_stored_and_returned(session, cgroup):
    assert get_limits(FIRST, cgroup) == Limits(0, NO_LIMIT)
    set_limits(FIRST, cgroup, 3 * GIB, soft=GIB)
    set_limits(FIRST, cgroup, 2 * GIB, soft=GIB)
    assert get_limits(FIRST, cgroup) == session.read_limits()[FIRST, cgroup] == Limits(GIB, 2 * GIB)
    set_limits(FIRST, cgroup, NO_LIMIT)
    assert session.read_limits() == {}
    assert session.read_notes() == []


def test_path_that_is_not_a_cgroup_is_rejected_and_recorded(session, tmp_path):
    with pytest.raises(pynvml.NVMLError_NotFound):
        set_limits(FIRST, tmp_path / "elsewhere", GIB)
    assert session.read_notes() == [f"refused {FIRST} {tmp_path / 'elsewhere'}"]


@pytest.mark.parametrize("soft", [0, GIB])
def test_removed_cgroup_with_soft_limit_is_recorded_as_leak(session, cgroup, tmp_path, soft):
    set_limits(FIRST, cgroup, GIB, soft=soft)
    cgroup.rename(tmp_path / "moved")
    set_limits(FIRST, tmp_path / "moved", GIB)
    assert session.read_notes() == ([f"leaked {FIRST} {GIB} {cgroup}"] if soft else [])
    assert list(session.read_limits()) == [(FIRST, tmp_path / "moved")]


def test_mig_card_and_configured_failures_return_errors(session, cgroup):
    with pytest.raises(pynvml.NVMLError_NotSupported):
        set_limits(SECOND, cgroup, GIB)
    session.failures["nvmlDeviceSetMemoryLimits_v1"] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    session.write()
    with pytest.raises(pynvml.NVMLError_FunctionNotFound):
        set_limits(FIRST, cgroup, GIB)
    assert pynvml.nvmlSystemGetDriverVersion() == "615.71.09"
