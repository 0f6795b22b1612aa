"""Detection of the file systems of open files from mount tables, without access to the file systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

# The file systems of device nodes of hosts and containers. A tenant cannot serve these file systems, in contrast to NFS
# and FUSE. They also cannot be based on a file system that a tenant serves, in contrast to overlay.
_LOCAL: Final = frozenset({"devtmpfs", "ramfs", "tmpfs"})


class MountTables:
    """The mount tables of processes, which are read once for each mount namespace."""

    def __init__(self) -> None:
        self._types: dict[str, Mapping[str, str]] = {}

    def is_local(self, process: Path, mount: str | None) -> bool:
        """Return whether a file is on a file system that does not block.

        Args:
            process: the folder in `/proc` of the process that has the file open.
            mount: the file's mount ID; None in the file tree of a test, which does not have mount IDs.
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
    """Return the file system types by mount ID. The kernel escapes the spaces in the paths of this file."""
    lines = (line.partition(" - ") for line in mountinfo.splitlines())
    return {mount.split(" ", 1)[0]: rest.split(" ", 1)[0] for mount, separator, rest in lines if separator}
