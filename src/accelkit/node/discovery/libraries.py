"""Finds the vendors' libraries on a host and loads them from there, so that accelkit's image needs none of them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from accelkit.node.discovery.sysfs import follow_links, read_text

# Where drivers are installed, in the order in which they are looked for: on the host itself, in the container of
# NVIDIA's operator, and on Google's nodes.
DRIVER_ROOTS: Final = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia")
_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    # Debian's own packages link to these by a folder that is not looked into here.
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "usr/lib",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "lib",
)
_VERSION: Final = re.compile(r"\.so\.(\d+(?:\.\d+)+)")
_MAPPING_FIELDS: Final = 6


class LibraryState(StrEnum):
    """What became of a library."""

    WORKS = "works"  # it is loaded, and its driver answers
    PRESENT = "present"  # it is there, and nothing is asked of it
    MISSING = "missing"
    BROKEN = "broken"  # it is there, and cannot be loaded
    SILENT = "silent"  # it is loaded, and its driver does not answer


@dataclass(frozen=True, slots=True)
class Library:
    """A vendor's library on this host.

    Attributes:
        path: where it lies on the host or, where a container runtime has put it into this container, here.
        version: as its file's name or its driver says; None when unknown.
        reason: why it is of no use, as a sentence; empty where it is.
    """

    name: str
    state: LibraryState
    path: str | None = None
    version: str | None = None
    reason: str = ""


def find_library(root: Path, name: str) -> Library:
    """Look for a library that nothing is asked of, below the host's root."""
    path = next(_list_candidates(root, name), None)
    if path is None:
        return Library(name, LibraryState.MISSING, reason="it is in none of the host's library folders")
    return Library(name, LibraryState.PRESENT, _show(root, path), _read_version(path.name))


def load_library(root: Path, name: str) -> Library:
    """Load a library for the life of this process: from the host by its path, else as this container has it.

    Once it is loaded, its own name finds it: the dynamic linker compares names with those that loaded libraries give
    themselves. So whoever opens it by name, as `pynvml` does, gets the one that was loaded here.

    Returns:
        The library, `PRESENT` where it is loaded, as nothing was asked of its driver yet.
    """
    reasons = []
    if _find_mapped(name) is None:
        for candidate in (*_list_candidates(root, name), name):
            try:
                ctypes.CDLL(str(candidate))
                break
            except OSError as exc:
                reasons.append(str(exc))
    mapped = _find_mapped(name)
    if mapped is not None:
        return Library(name, LibraryState.PRESENT, _show(root, mapped), _read_version(mapped.name))
    if len(reasons) == 1:
        return find_library(root, name)
    return Library(name, LibraryState.BROKEN, reason=f"it cannot be loaded: {reasons[0]}")


def _list_candidates(root: Path, name: str) -> Iterator[Path]:
    for driver_root in DRIVER_ROOTS:
        below = root / driver_root.lstrip("/")
        for folder in _FOLDERS:
            # A driver's folder that is mounted from elsewhere has links of its own root.
            target = follow_links(below, f"{folder}/{name}")
            if target is not None and (below / target).is_file():
                yield below / target


def _find_mapped(name: str) -> Path | None:
    """Return the file by which this process has loaded a library of any version."""
    stem = name.partition(".so")[0] + ".so"
    for line in (read_text(Path("/proc/self/maps")) or "").splitlines():
        fields = line.split(maxsplit=_MAPPING_FIELDS - 1)
        if len(fields) == _MAPPING_FIELDS and Path(fields[-1]).name.startswith(stem):
            return Path(fields[-1])
    return None


def _show(root: Path, path: Path) -> str:
    # A container's own folder of this root is no place on the host.
    resolved = root.resolve()
    for base in (root, resolved):
        if path.is_relative_to(base):
            return f"/{path.relative_to(base)}"
    return str(path)


def _read_version(name: str) -> str | None:
    found = _VERSION.search(name)
    return found[1] if found else None
