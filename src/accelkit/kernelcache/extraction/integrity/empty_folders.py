"""Removes folders that hold nothing but folders, however deep they are: no path to them need fit into a system call."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_if_empty(root: Path, path: str) -> bool:
    """Remove a folder below a root with all that are in it; return whether it is gone.

    Where something else is in it, or it cannot be removed, that stays, and so may folders beside it.
    """
    above, _, name = path.rpartition("/")
    try:
        folder = os.open(root / above, _FOLDER)
    except OSError:
        return False
    # From the folder that has it down to that which is open.
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
    """Remove the empty folders in a folder; return one that is not empty.

    Raises:
        OSError: there is something else in it, or it may not be removed.
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
    """Return the folder of a name in one, which is closed."""
    found = os.open(name, _FOLDER, dir_fd=folder)
    os.close(folder)
    return found
