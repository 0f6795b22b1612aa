"""File systems of the open files of processes, from their mount tables, without a request to the file systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Device nodes of hosts and containers are on these. None of them can be served by a tenant, as NFS and FUSE can, or lie
# on such a file system, as overlay can.
_LOCAL: Final = frozenset({"devtmpfs", "ramfs", "tmpfs"})


class MountTables:
    """The mount tables of processes, read once for each mount namespace."""

    def __init__(self) -> None:
        self._types: dict[str, Mapping[str, str]] = {}

    def is_local(self, process: Path, mount: str | None) -> bool:
        """Return whether a file is on a file system that answers at once.

        Args:
            process: the folder in `/proc` of the process that has the file open.
            mount: the file's mount id; None in a tree of files, which has none.
        """
        return mount is None or self._read(process).get(mount) in _LOCAL

    def _read(self, process: Path) -> Mapping[str, str]:
        try:
            namespace = str((process / "ns/mnt").readlink())
            if namespace not in self._types:
                self._types[namespace] = _parse((process / "mountinfo").read_text(errors="replace"))
        except OSError:
            return {}
        return self._types[namespace]


def _parse(mountinfo: str) -> Mapping[str, str]:
    """Return the types of file systems by mount id; spaces in paths are escaped there."""
    lines = (line.partition(" - ") for line in mountinfo.splitlines())
    return {mount.split(" ", 1)[0]: rest.split(" ", 1)[0] for mount, separator, rest in lines if separator}
