"""Readers of small files below a root folder. If a file is unreadable, they raise an error or return None.

Links in sysfs are relative and are followed without changes. Other links of the host may be relative to its root.
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
# The maximum size of an attribute in sysfs, which is one page.
_PAGE = 4096
# The maximum number of links that the kernel follows.
_MAX_LINKS = 40


def list_entries(folder: Path) -> list[Path]:
    """Return the entries of a folder, sorted by name; empty if the folder does not exist.

    Raises:
        DevicePluginError: the folder cannot be listed, so its entries are unknown.
    """
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise DevicePluginError(f"cannot list {folder}: {exc.strerror}") from exc


def read_hex(path: Path) -> str | None:
    """Return a hexadecimal attribute in lower case without `0x`; None if it does not exist.

    The attribute may be missing because the device was removed.

    Raises:
        DevicePluginError: the attribute exists, but cannot be read.
    """
    try:
        return path.read_text().strip().removeprefix("0x").lower()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as exc:
        raise DevicePluginError(f"cannot read {path}: {exc}") from exc


def read_text(path: Path) -> str | None:
    """Return a file's content without surrounding white space; None if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def open_here(path: Path) -> BinaryIO:
    """Open a regular file without blocking, and without following a link at its path.

    Raises:
        OSError: the file cannot be opened.
        DevicePluginError: the file is a pipe, a device or a folder.
    """
    file = open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")  # noqa: PTH123, SIM115 - a descriptor, the caller's
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise DevicePluginError("it is not a regular file")
    return file


def read_bounded(path: Path, most: int) -> str | None:
    """Return the content of a file that another user may have created. Do not block or follow a link.

    Args:
        path: the file. Its parent folders must not be under the control of another user.
        most: the maximum number of bytes.

    Returns:
        The content; None if the file cannot be read, exceeds the maximum, or is not a regular file.
    """
    try:
        with open_here(path) as file:
            content = file.read(most + 1)
    except (OSError, DevicePluginError):
        return None
    return content.decode(errors="replace") if len(content) <= most else None


def read_integer(path: Path) -> int | None:
    """Return a file's decimal number; None if it cannot be read, is not a number, or is not a regular file."""
    try:
        return int(read_bounded(path, _PAGE) or "")
    except ValueError:
        return None


def find_first(folder: Path, pattern: str) -> Path | None:
    """Return the first match of a pattern, sorted by name, or None."""
    return min(folder.glob(pattern), default=None)


def find_trailing_number(folder: Path, pattern: str) -> int | None:
    """Return the number at the end of the name of the first entry that matches a pattern, or None."""
    entry = find_first(folder, pattern)
    match = None if entry is None else _NUMBER.search(entry.name)
    return None if match is None else int(match[0])


def read_key_values(path: Path, separator: str | None = ":") -> Mapping[str, str]:
    """Return the keys and values of a file with one pair per line; empty if it cannot be read."""
    lines = (line.split(separator, 1) for line in (read_text(path) or "").splitlines())
    return {line[0].strip(): line[1].strip() for line in lines if len(line) > 1}


def follow_links(root: Path, path: str) -> PurePosixPath | None:
    """Return the target of a path on the host, relative to the host's root; None if the links form a loop.

    Links are resolved as on the host, where `/` is the root. The target may be missing. The first component of a path
    is not resolved, because the top-level folder may be a mount of the host's folder.
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
        if links > _MAX_LINKS:
            return None
        pending.extendleft(reversed(target.parts))
    return here
