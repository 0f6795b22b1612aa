"""Removal of folders that contain only folders, at any depth, even if the path exceeds the limit of system calls."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_if_empty(root: Path, path: str) -> bool:
    """Remove a folder below a root with all folders in it; return whether it was removed.

    An entry that is not a folder or cannot be removed is kept, and so may be the folders next to it.
    """
    parent, _, name = path.rpartition("/")
    try:
        folder = os.open(root / parent, _FOLDER)
    except OSError:
        return False
    # The names from the parent folder down to the open folder.
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
    """Remove the empty folders in a folder; return the name of a folder that is not empty, or an empty text.

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
    """Open a folder relative to an open folder, close the open folder, and return the new descriptor."""
    found = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return found
