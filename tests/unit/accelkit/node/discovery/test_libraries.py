"""Vendors' libraries are found on the host as it names them, and loaded from there."""

import json
import subprocess
import sys

import pytest

from accelkit.node.discovery import LibraryState, survey
from accelkit.node.discovery.libraries import find_library, load_library
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.vendors.profiles import load_profiles

NVML = """
#include <stdio.h>
int nvmlInitWithFlags(unsigned flags) { return 0 * flags; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { snprintf(to, size, "%s", VERSION); return 0; }
"""
# In a process of its own, because what is loaded stays.
ASK = """
import json, sys
from pathlib import Path
from accelkit.node.discovery.nvml import load_nvml, nvml_session
for root in sys.argv[1:]:
    with nvml_session(Path(root)) as (nvml, library):
        said = nvml.read_driver_version() if nvml else None
        print(json.dumps([library.state, library.path, library.version, said, library.reason]))
"""


def write(root, path, link=None):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if link is None:
        file.touch()
    else:
        file.symlink_to(link)


def build(root, path, version, soname="libnvidia-ml.so.1"):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    options = ["-shared", "-fPIC", f'-DVERSION="{version}"', f"-Wl,-soname,{soname}", "-xc", "-"]
    subprocess.run(["gcc", "-o", root / path, *options], input=NVML.encode(), check=True)


def ask(*roots):
    done = subprocess.run([sys.executable, "-c", ASK, *roots], capture_output=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_symbolic_links_are_resolved_within_host_root(tmp_path):
    # As the manual of GCUShare shows it.
    write(tmp_path, "usr/lib/libefml.so", "/usr/local/efsmi/efsmi-1.14.0/lib/libefml.so.1.0.0")
    assert find_library(tmp_path, "libefml.so").state is LibraryState.MISSING
    write(tmp_path, "usr/local/efsmi/efsmi-1.14.0/lib/libefml.so.1.0.0")
    found = find_library(tmp_path, "libefml.so")
    assert (found.state, found.version) == (LibraryState.PRESENT, "1.0.0")
    assert found.path == "/usr/local/efsmi/efsmi-1.14.0/lib/libefml.so.1.0.0"


@pytest.mark.parametrize("path", ["usr/lib64/l.so.1", "usr/lib/aarch64-linux-gnu/l.so.1", "lib64/l.so.1"])
@pytest.mark.parametrize("root", ["", "run/nvidia/driver/", "home/kubernetes/bin/nvidia/"])
def test_libraries_are_found_in_driver_folders(tmp_path, root, path):
    write(tmp_path, root + path)
    assert find_library(tmp_path, "l.so.1").path == f"/{root}{path}"


def test_host_library_precedes_library_of_driver_container(tmp_path):
    for path in ("run/nvidia/driver/usr/lib64/l.so.1", "lib64/l.so.1", "usr/lib64/l.so.1"):
        write(tmp_path, path)
    assert find_library(tmp_path, "l.so.1").path == "/usr/lib64/l.so.1"


@pytest.mark.parametrize("link", ["l.so.1", "../lib64/l.so.1"])
def test_library_behind_circular_link_is_missing(tmp_path, link):
    write(tmp_path, "usr/lib64/l.so.1", link)
    assert find_library(tmp_path, "l.so.1").state is LibraryState.MISSING


def test_unloadable_library_is_broken_and_absent_library_is_missing(tmp_path):
    assert load_library(tmp_path, "libaccelkit-none.so.1").state is LibraryState.MISSING
    write(tmp_path, "usr/lib64/libaccelkit-none.so.1")
    found = load_library(tmp_path, "libaccelkit-none.so.1")
    assert found.state is LibraryState.BROKEN
    assert "cannot be loaded" in found.reason
    assert "file too short" in found.reason


def test_nvml_session_uses_library_of_host(tmp_path):
    build(tmp_path, "run/nvidia/driver/usr/lib64/libnvidia-ml.so.550.54.14", "550.54.14")
    write(tmp_path, "run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.550.54.14")
    [said] = ask(tmp_path)
    path = "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.550.54.14"
    assert said == ["works", path, "550.54.14", "550.54.14", ""]


def test_next_library_is_used_if_first_library_cannot_be_loaded(tmp_path):
    write(tmp_path, "usr/lib64/libnvidia-ml.so.1")
    build(tmp_path, "lib64/libnvidia-ml.so.1", "1.2")
    [said] = ask(tmp_path)
    assert said[:2] == ["works", "/lib64/libnvidia-ml.so.1"]


def test_loaded_library_is_reused_for_another_root(tmp_path):
    for name in ("a", "b"):
        build(tmp_path / name, "usr/lib64/libnvidia-ml.so.1", name)
    assert [said[3] for said in ask(tmp_path / "a", tmp_path / "b")] == ["a", "a"]


def test_libraries_are_reported_only_for_vendors_with_cards(tmp_path):
    host = FakeHost(tmp_path).add("enflame", 1, "S60").add("amd", 1, "MI210")
    found = survey(host.root, load_profiles().values())
    assert len(found.cards) == 2
    assert {vendor: [each.state for each in of] for vendor, of in found.libraries.items()} == {
        "enflame": [LibraryState.MISSING]
    }
