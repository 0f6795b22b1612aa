"""Removal of nested folders that contain no files, even if their paths exceed the length limit of system calls."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_if_empty(root: Path, path: str) -> bool:
    """Remove a folder below a root with all its subfolders; return whether the folder was removed.

    If an entry is not a folder or cannot be removed, this entry and some of the folders next to it may remain.
    """
    parent, _, name = path.rpartition("/")
    try:
        folder = os.open(root / parent, _FOLDER)
    except OSError:
        return False
    # The names of the folders on the path from the parent folder to the open folder.
    names: list[str] = []
    missing = name
    try:
        while True:
            if missing:
                folder = _move(folder, missing)
                names.append(missing)
            missing = _empty(folder)
            if not missing:
                folder = _move(folder, "..")
                os.rmdir(names[-1], dir_fd=folder)
                names.pop()
                if not names:
                    return True
    except OSError:
        return False
    finally:
        os.close(folder)


def _empty(folder: int) -> str:
    """Remove the empty folders in a folder; return the name of a non-empty subfolder, or an empty string.

    Raises:
        OSError: an entry is not a folder, or cannot be removed.
    """
    left = ""
    for entry in os.listdir(folder):
        try:
            os.rmdir(entry, dir_fd=folder)
        except OSError as exc:
            if exc.errno != errno.ENOTEMPTY:
                raise
            left = entry
    return left


def _move(folder: int, name: str) -> int:
    """Open a folder by its path relative to an open folder, close the open folder, and return the new descriptor."""
    found = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return found
