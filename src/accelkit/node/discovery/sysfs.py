"""Reads small files below a root. What must be there raises; what may be there is None where it cannot be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from accelkit.errors import DevicePluginError

_NUMBER = re.compile(r"[0-9]+$")


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


def read_integer(path: Path) -> int | None:
    """Return a file's decimal number; None where it cannot be read, or is none."""
    try:
        return int(read_text(path) or "")
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
