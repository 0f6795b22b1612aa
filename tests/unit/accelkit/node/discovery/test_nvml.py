import sys
from types import ModuleType

import pytest

from accelkit.node.discovery import Library, LibraryState, Nvml, nvml, nvml_session
from accelkit.node.discovery.nvml import NvmlCard, load_nvml, to_sysfs_bdf


@pytest.mark.parametrize(
    ("library", "sysfs"), [("00000000:3B:00.0", "0000:3b:00.0"), ("00010000:01:00.0", "10000:01:00.0")]
)
def test_addresses_are_written_as_sysfs_does(library, sysfs):
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


def test_a_host_without_the_library_has_no_session_and_says_why(library, tmp_path):
    library(LibraryState.MISSING)
    with nvml_session(tmp_path) as (opened, found):
        assert opened is None
        assert found.state is LibraryState.MISSING


def test_a_session_says_which_library_and_which_driver_and_is_closed(library, tmp_path, monkeypatch):
    library()
    bindings = Bindings()
    monkeypatch.setitem(sys.modules, "pynvml", bindings)
    with nvml_session(tmp_path) as (opened, found):
        assert isinstance(opened, Nvml)
        assert (found.state, found.version) == (LibraryState.WORKS, "550.54.15")
        assert bindings.open == 1
    assert bindings.open == 0


@pytest.mark.parametrize("there", [True, False])
def test_a_driver_that_may_not_be_asked_is_not_one_that_is_not_there(library, tmp_path, monkeypatch, there):
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


def test_python_bindings_alone_are_not_the_library(library, monkeypatch):
    bindings = Bindings()
    monkeypatch.setitem(sys.modules, "pynvml", bindings)
    library()
    assert load_nvml() is bindings
    library(LibraryState.MISSING)
    assert load_nvml() is None


def test_what_the_library_does_not_say_is_unknown(fake_nvml):
    assert Nvml(fake_nvml({"0000:3b:00.0": {}})).find_card("0000:3b:00.0") == NvmlCard()
