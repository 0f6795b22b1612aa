"""Loader for vendor libraries on the host, so that accelkit's image does not need to contain the libraries."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from accelkit.node.discovery.sysfs import follow_links, read_text

# The folders in which drivers are installed, in search order: on the host, in the driver container of NVIDIA's
# operator, and on nodes of Google Kubernetes Engine.
DRIVER_ROOTS: Final = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia")
_FOLDERS: Final = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    # Debian's packages link to this folder from a folder that is not in the search order.
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
    """The state of a library on a host."""

    WORKS = "works"  # The library is loaded, and its driver responds.
    PRESENT = "present"  # The library exists, and its driver was not queried.
    MISSING = "missing"
    BROKEN = "broken"  # The library exists, but cannot be loaded.
    SILENT = "silent"  # The library is loaded, but its driver does not respond.


@dataclass(frozen=True, slots=True)
class Library:
    """A vendor's library on this host.

    Attributes:
        name: the name of its file.
        state: its state.
        path: its path on the host, or in this container if the container runtime mounted it.
        version: its version, from the name of its file or from its driver; None if it is unknown.
        reason: the reason why it cannot be used, as a sentence; empty if it can be used.
    """

    name: str
    state: LibraryState
    path: str | None = None
    version: str | None = None
    reason: str = ""


def find_library(root: Path, name: str) -> Library:
    """Return the state of a library below the host's root, without loading the library."""
    path = next(_list_candidates(root, name), None)
    if path is None:
        return Library(name, LibraryState.MISSING, reason="it does not exist in the host's library folders")
    return Library(name, LibraryState.PRESENT, _to_host_path(root, path), _read_version(path.name))


def load_library(root: Path, name: str) -> Library:
    """Load a library for the lifetime of this process, from its path on the host or from this container.

    The dynamic linker then finds the loaded library by its name (its soname). Therefore, modules that open the library
    by name, such as `pynvml`, use this library.

    Returns:
        The library, with the state `PRESENT` if it is loaded, because its driver was not queried yet.
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
        return Library(name, LibraryState.PRESENT, _to_host_path(root, mapped), _read_version(mapped.name))
    if len(reasons) == 1:
        return find_library(root, name)
    return Library(name, LibraryState.BROKEN, reason=f"it cannot be loaded: {reasons[0]}")


def _list_candidates(root: Path, name: str) -> Iterator[Path]:
    for driver_root in DRIVER_ROOTS:
        below = root / driver_root.lstrip("/")
        for folder in _FOLDERS:
            # Links below a driver root are relative to that root.
            target = follow_links(below, f"{folder}/{name}")
            if target is not None and (below / target).is_file():
                yield below / target


def _find_mapped(name: str) -> Path | None:
    """Return the path of the file from which this process loaded any version of a library."""
    stem = name.partition(".so")[0] + ".so"
    for line in (read_text(Path("/proc/self/maps")) or "").splitlines():
        fields = line.split(maxsplit=_MAPPING_FIELDS - 1)
        if len(fields) == _MAPPING_FIELDS and Path(fields[-1]).name.startswith(stem):
            return Path(fields[-1])
    return None


def _to_host_path(root: Path, path: Path) -> str:
    # Convert a path below the root in this container to the path on the host.
    resolved = root.resolve()
    for base in (root, resolved):
        if path.is_relative_to(base):
            return f"/{path.relative_to(base)}"
    return str(path)


def _read_version(name: str) -> str | None:
    found = _VERSION.search(name)
    return found[1] if found else None
