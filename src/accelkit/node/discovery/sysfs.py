"""Reads small files below a root. What must be there raises; what may be there is None where it cannot be read.

Links of sysfs are relative and lead where they lead; those of a host's other files may begin at its root.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from accelkit.errors import DevicePluginError

_NUMBER = re.compile(r"[0-9]+$")
# The kernel shows no attribute of more than a page.
_PAGE = 4096
# As many as the kernel follows.
_MOST_LINKS = 40


def list_entries(folder: Path) -> list[Path]:
    """Return what is in a folder, by name; nothing where there is no such folder.

    Raises:
        DevicePluginError: it cannot be listed, which is not the same as empty.
    """
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise DevicePluginError(f"{folder} cannot be listed: {exc.strerror}") from exc


def read_hex(path: Path) -> str | None:
    """Return a hexadecimal attribute in lower case, without `0x`; None where the device has just gone.

    Raises:
        DevicePluginError: it is there and cannot be read.
    """
    try:
        return path.read_text().strip().removeprefix("0x").lower()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise DevicePluginError(f"{path} cannot be read: {exc}") from exc


def read_text(path: Path) -> str | None:
    """Return a file's content without white space around it; None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def open_here(path: Path) -> BinaryIO:
    """Open a regular file, without waiting for anybody or following a link to it.

    Raises:
        OSError: it cannot be opened.
        DevicePluginError: it is a pipe, a device or a folder.
    """
    file = open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")  # noqa: PTH123, SIM115 - a descriptor, the caller's
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise DevicePluginError("it is no file")
    return file


def read_bounded(path: Path, most: int) -> str | None:
    """Return what others may have put there, without waiting for them or going where they point to.

    Args:
        path: the file; nothing before its last part is another one's.
        most: how many bytes it may have.

    Returns:
        None where it cannot be read, is longer, or is no file: a link, a pipe, a device.
    """
    try:
        with open_here(path) as file:
            content = file.read(most + 1)
    except (OSError, DevicePluginError):
        return None
    return content.decode(errors="replace") if len(content) <= most else None


def read_integer(path: Path) -> int | None:
    """Return a file's decimal number; None where it cannot be read, is none, or is no plain file of its own."""
    try:
        return int(read_bounded(path, _PAGE) or "")
    except ValueError:
        return None


def find_first(folder: Path, pattern: str) -> Path | None:
    """Return the first match of a pattern by name, or None."""
    return min(folder.glob(pattern), default=None)


def find_trailing_number(folder: Path, pattern: str) -> int | None:
    """Return the number at the end of the name of the first entry that fits, or None."""
    entry = find_first(folder, pattern)
    match = None if entry is None else _NUMBER.search(entry.name)
    return None if match is None else int(match[0])


def read_key_values(path: Path, separator: str | None = ":") -> Mapping[str, str]:
    """Return a file of lines of key and value; nothing where it cannot be read."""
    lines = (line.split(separator, 1) for line in (read_text(path) or "").splitlines())
    return {line[0].strip(): line[1].strip() for line in lines if len(line) > 1}


def follow_links(root: Path, path: str) -> PurePosixPath | None:
    """Return where a path of the host leads, relative to its root; None for links without an end.

    Links are followed as the host itself would, for which `/` is the root; what they lead to may be missing. A folder
    of the root itself is taken as it is: it may be where one of the host's is shown.
    """
    pending, here, links = deque(PurePosixPath(path).parts), PurePosixPath(), 0
    while pending:
        part = pending.popleft()
        if part in ("/", ".."):
            here = PurePosixPath() if part == "/" else here.parent
            continue
        if here == PurePosixPath():
            here /= part
            continue
        try:
            target = (root / here / part).readlink()
        except OSError:
            here /= part
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        pending.extendleft(reversed(target.parts))
    return here
