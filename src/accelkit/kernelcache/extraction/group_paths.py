"""Triton's group files of an extracted cache, made to name the paths that workloads see."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from accelkit.kernelcache.group_files import MAX_GROUP_FILE_BYTES, is_group_file, relocated


def relocate_group_files(cache: Path, mount_path: str) -> tuple[int, int]:
    """Rewrite every group file below a folder, and count what is there.

    Returns:
        How many files there are, and their bytes.

    Raises:
        CacheError: a group file is not of a form that Triton writes.
        OSError: the disk is full, or cannot be written.
    """
    files = size_bytes = 0
    for folder, _, names in os.walk(cache):
        within = Path(folder).relative_to(cache).as_posix()
        for name in names:
            path = Path(folder) / name
            if is_group_file(name):
                with path.open("rb") as file:
                    document = file.read(MAX_GROUP_FILE_BYTES + 1)
                seen_at = posixpath.normpath(posixpath.join(mount_path, within))
                path.write_bytes(relocated(document, folder_in_mount=seen_at))
            files += 1
            size_bytes += path.stat().st_size
    return files, size_bytes
