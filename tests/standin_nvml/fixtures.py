"""The stand-in library in the test's own process."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from standin_nvml import StandinNvml, build_library
from standin_nvml.state import STATE_VARIABLE


@pytest.fixture(scope="session")
def standin_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in `libnvidia-ml.so.1`, built."""
    built = build_library(tmp_path_factory.mktemp("standin-nvml"))
    if built is None:
        pytest.skip("no gcc here to build the stand-in NVML")
    return built


@pytest.fixture
def standin_nvml(standin_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandinNvml:
    """A host with NVIDIA's driver and no cards yet; everything that loads `libnvidia-ml.so.1` here gets the stand-in.

    The library stays loaded, since nobody can tell who else holds it. Without its state it knows no driver.
    """
    # A library of this name that is loaded already is what its name alone leads to.
    ctypes.CDLL(str(standin_library))
    monkeypatch.setattr("pynvml.nvmlLib", None)
    monkeypatch.setattr("pynvml._nvmlGetFunctionPointer_cache", {})
    state = StandinNvml(tmp_path / "standin-nvml.state")
    monkeypatch.setenv(STATE_VARIABLE, str(state.path))
    state.write()
    return state
