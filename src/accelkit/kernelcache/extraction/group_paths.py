"""Triton's group files of an extracted cache, made to name the paths that workloads see."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from accelkit.kernelcache.formats.group_files import MAX_GROUP_FILE_BYTES, is_group_file, relocated


def relocate_group_files(cache: Path, mount_path: str) -> None:
    """Rewrite every group file below a folder.

    Raises:
        CacheError: a group file is not of a form that Triton writes.
        OSError: the disk is full, or cannot be written.
    """
    for folder, _, names in os.walk(cache):
        within = Path(folder).relative_to(cache).as_posix()
        seen_at = posixpath.normpath(posixpath.join(mount_path, within))
        for name in filter(is_group_file, names):
            path = Path(folder) / name
            with path.open("rb") as file:
                document = file.read(MAX_GROUP_FILE_BYTES + 1)
            path.write_bytes(relocated(document, folder_in_mount=seen_at))
