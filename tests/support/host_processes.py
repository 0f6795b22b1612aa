"""Processes of a host, as files of `/proc`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

File = str | tuple[str, str]


def write_process(
    root: Path,
    pid: int,
    command: str,
    *,
    cgroup: str = "/system.slice/x.service",
    files: Mapping[int, File] | None = None,
) -> Path:
    """Write a process; its open files by number are each a path, or a path and what fdinfo says of it."""
    folder = root / "proc" / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "fdinfo").mkdir()
    (folder / "comm").write_text(f"{command}\n")
    (folder / "cgroup").write_text(f"0::{cgroup}\n")
    for number, file in (files or {}).items():
        path, info = (file, "pos:\t0") if isinstance(file, str) else file
        (folder / "fd" / str(number)).symlink_to(path)
        (folder / "fdinfo" / str(number)).write_text(info)
    return folder
