"""A clock that jumps, and a disk that is full, for one process of the laboratory; both are right again afterwards."""

import os
import subprocess
import sys
import time

import pytest
from faults.false_clock import LIBRARIES, FalseClock
from faults.small_disk import SmallDisk

SHOW = "import time; print(time.time(), time.monotonic())"


@pytest.mark.skipif(not LIBRARIES, reason="libfaketime is not installed")
@pytest.mark.parametrize("seconds", [0, 3600, -900])
def test_false_clock_changes_wall_clock_but_not_monotonic_clock(tmp_path, seconds):
    clock = FalseClock(tmp_path / "clock")
    clock.jump(seconds)
    wall, passed = time.time(), time.monotonic()
    shown = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, **clock.environment},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert float(shown[0]) - wall == pytest.approx(seconds, abs=60)
    assert float(shown[1]) - passed == pytest.approx(0, abs=60)


def test_filled_disk_rejects_writes_until_freed(tmp_path):
    disk = SmallDisk(tmp_path / "disk")
    disk.mount()
    try:
        if not disk.mounted:
            pytest.skip("no disk can be mounted here")
        (disk.folder / "log").write_bytes(b"x" * 10_000)
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.folder / "more").write_bytes(b"x" * 10_000)
        disk.free()
        (disk.folder / "more").write_bytes(b"x" * 10_000)
    finally:
        disk.unmount()
    assert list(disk.folder.iterdir()) == []


def test_disk_is_plain_folder_without_permission_to_mount(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    disk = SmallDisk(tmp_path / "disk")
    disk.mount()
    disk.fill()
    (disk.folder / "log").write_bytes(b"x")
    disk.free()
    disk.unmount()
    assert [file.name for file in disk.folder.iterdir()] == ["log"]
