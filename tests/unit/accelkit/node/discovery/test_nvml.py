from __future__ import annotations

import ctypes
import sys
from types import ModuleType

import pytest

from accelkit.node.discovery import Nvml, nvml_session
from accelkit.node.discovery.nvml import NvmlCard, load_nvml, to_sysfs_bdf


@pytest.mark.parametrize(
    ("library", "sysfs"), [("00000000:3B:00.0", "0000:3b:00.0"), ("00010000:01:00.0", "10000:01:00.0")]
)
def test_addresses_are_written_as_sysfs_does(library, sysfs):
    assert to_sysfs_bdf(library) == sysfs


def test_a_host_without_the_library_has_no_session(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with nvml_session() as nvml:
        assert nvml is None


def test_python_bindings_alone_are_not_the_library(monkeypatch):
    bindings = ModuleType("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", bindings)
    library = {"libnvidia-ml.so.1": object()}
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library[name])
    assert load_nvml() is bindings

    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert load_nvml() is None


def test_what_the_library_does_not_say_is_unknown(fake_nvml):
    assert Nvml(fake_nvml({"0000:3b:00.0": {}})).find_card("0000:3b:00.0") == NvmlCard()


def test_a_card_that_the_library_does_not_know_is_none(fake_nvml):
    assert Nvml(fake_nvml({})).find_card("0000:3b:00.0") is None
