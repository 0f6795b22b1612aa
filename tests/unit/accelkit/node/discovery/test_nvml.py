import sys
from types import ModuleType

import pytest

from accelkit.node.discovery import Library, LibraryState, Nvml, nvml, nvml_session
from accelkit.node.discovery.nvml import NvmlCard, load_nvml, to_sysfs_bdf


@pytest.mark.parametrize(
    ("library", "sysfs"), [("00000000:3B:00.0", "0000:3b:00.0"), ("00010000:01:00.0", "10000:01:00.0")]
)
def test_nvml_addresses_are_converted_to_sysfs_format(library, sysfs):
    assert to_sysfs_bdf(library) == sysfs


@pytest.fixture
def library(monkeypatch):
    """Has the library loaded from the host, or not."""

    def make(state=LibraryState.PRESENT):
        monkeypatch.setattr(
            nvml, "load_library", lambda _root, name: Library(name, state, "/usr/lib/libnvidia-ml.so.1", "550.54.14")
        )

    return make


class Bindings(ModuleType):
    """The module pynvml over a driver that answers, or fails."""

    class NVMLError(Exception):
        pass

    def __init__(self, problem=None):
        super().__init__("pynvml")
        self.open, self.problem = 0, problem

    def nvmlInit(self):  # noqa: N802 - the library's name
        if self.problem:
            raise self.NVMLError(self.problem)
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802 - the library's name
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802 - the library's name
        return b"550.54.15"


def test_host_without_library_has_no_nvml_session(library, tmp_path):
    library(LibraryState.MISSING)
    with nvml_session(tmp_path) as (opened, found):
        assert opened is None
        assert found.state is LibraryState.MISSING


def test_session_returns_driver_version_and_is_closed(library, tmp_path, monkeypatch):
    library()
    bindings = Bindings()
    monkeypatch.setitem(sys.modules, "pynvml", bindings)
    with nvml_session(tmp_path) as (opened, found):
        assert isinstance(opened, Nvml)
        assert (found.state, found.version) == (LibraryState.WORKS, "550.54.15")
        assert bindings.open == 1
    assert bindings.open == 0


@pytest.mark.parametrize("there", [True, False])
def test_inaccessible_device_node_and_unloaded_driver_have_different_reasons(library, tmp_path, monkeypatch, there):
    library()
    monkeypatch.setitem(sys.modules, "pynvml", Bindings("Driver Not Loaded"))
    monkeypatch.setattr(nvml, "_CONTROL_NODE", "dev/nvidiactl-of-nobody")
    if there:
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/nvidiactl-of-nobody").touch()
    with nvml_session(tmp_path) as (opened, found):
        assert opened is None
    assert found.state is LibraryState.SILENT
    assert ("cannot open its device nodes" in found.reason) is there
    assert ("does not respond: Driver Not Loaded" in found.reason) is not there


def test_load_nvml_returns_none_without_library(library, monkeypatch):
    bindings = Bindings()
    monkeypatch.setitem(sys.modules, "pynvml", bindings)
    library()
    assert load_nvml() is bindings
    library(LibraryState.MISSING)
    assert load_nvml() is None


def test_values_missing_in_nvml_are_unknown(fake_nvml):
    assert Nvml(fake_nvml({"0000:3b:00.0": {}})).find_card("0000:3b:00.0") == NvmlCard()
