"""Scan of private copies, which counts the files that pods created. The files are untrusted.

Each folder is opened relative to its parent folder instead of by its full path. Therefore, symbolic links are not
followed, even if a pod creates them during the walk. Files are not opened. The length of names, the depth and the
number of entries are limited, and the results do not contain file names.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from accelkit.cacheagent.scanning.document import MAX_COPIES, CopyReport
from accelkit.gkm.names import VOLUME_PREFIX
from accelkit.kernelcache.extraction.private_copy import MARKER

PODS_FOLDER: Final = Path("/var/lib/kubelet/pods")
_VOLUMES: Final = ("volumes", "kubernetes.io~empty-dir")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Patterns for volume names that the API server accepts, and for UIDs in the formats of the API server and the kubelet.
_COPY: Final = re.compile(re.escape(VOLUME_PREFIX) + r"[a-z0-9-]{1,63}", re.ASCII)
_UID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f-]{23,27}", re.ASCII)
_MAX_COPIES_PER_POD: Final = 32
_MAX_DEPTH: Final = 40
_MAX_ENTRIES: Final = 250_000
_MAX_ALL_ENTRIES: Final = 1_000_000
# Minimum number of entries that are scanned in each copy, regardless of the size of other copies.
_LEAST_ENTRIES: Final = 1000
_MAX_KEYS: Final = 1000
# Triton's folder names: a digest in base32 or base64, depending on the release.
_TRITON: Final = re.compile(r"[A-Z2-7]{52}|[A-Za-z0-9_-]{43}", re.ASCII)
_VLLM: Final = "torch_compile_cache"
_AOT: Final = "torch_aot_compile"
# Temporary files that frameworks create even if they find all kernels.
_PASSING: Final = re.compile(r".*\.lock|tmp\..*|\..*\.tmp|.*\.pyc", re.ASCII | re.DOTALL)


# Errors that are ignored because pods may terminate during the walk and because the kubelet does not create entries of
# other types.
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ESTALE})


@dataclass
class Scan:
    """Results of a scan of all copies on a node.

    Attributes:
        reports: reports of the filled copies.
        left_out: number of copies that were not scanned because of the limit.
        unfilled: number of copies without a marker: the copy is incomplete, or the pod deleted the marker.
        closed: number of folders that cannot be read.
        error: first error that was caused by an unreadable folder, without file names.
    """

    reports: list[CopyReport] = field(default_factory=list)
    left_out: int = 0
    unfilled: int = 0
    closed: int = 0
    error: str = ""

    def note_closed(self, error: OSError) -> None:
        """Record a folder that exists but cannot be read."""
        if error.errno not in _ABSENT:
            self.closed += 1
            self.error = self.error or os.strerror(error.errno or 0)


class _ExhaustedError(Exception):
    pass


@dataclass
class _Budget:
    entries: int

    def take(self) -> None:
        self.entries -= 1
        if self.entries < 0:
            raise _ExhaustedError


@dataclass
class _Count:
    """File counts for one copy. Files that the workload created are newer than the marker."""

    marker: os.stat_result
    triton: int = 0
    vllm: int = 0
    other: int = 0
    # For each folder in vLLM's cache, whether the workload created all files in the folder.
    keys: dict[str, bool] = field(default_factory=dict)
    bounded: bool = False

    def add(self, parts: tuple[str, ...], *, made: bool) -> None:
        key = _find_key(parts)
        if key and (key in self.keys or len(self.keys) < _MAX_KEYS):
            self.keys[key] = self.keys.get(key, True) and made
        if not made:
            return
        if _VLLM in parts:
            self.vllm += 1
        elif any(_TRITON.fullmatch(part) for part in parts):
            self.triton += 1
        else:
            self.other += 1


def scan_copies(pods_folder: Path = PODS_FOLDER) -> Scan:
    """Return the scan results of all private copies.

    Args:
        pods_folder: the kubelet's folder that contains the volumes of pods.

    Raises:
        OSError: the kubelet's folder cannot be read.
    """
    scan = Scan()
    left = _MAX_ALL_ENTRIES
    pods = os.open(pods_folder, _FOLDER)
    try:
        copies = _find_copies(pods, scan)
        for number, (uid, name) in enumerate(copies):
            share = max(_LEAST_ENTRIES, left // (len(copies) - number))
            budget = _Budget(min(_MAX_ENTRIES, share))
            report = _scan_copy(pods, uid, name, budget, scan)
            left -= min(_MAX_ENTRIES, share) - max(0, budget.entries)
            if report is not None:
                scan.reports.append(report)
    finally:
        os.close(pods)
    return scan


def _list_names(folder: int) -> list[str]:
    return os.listdir(folder)


def _find_copies(pods: int, scan: Scan) -> list[tuple[str, str]]:
    """Return the pod UIDs and volume names of the copies to scan."""
    copies: list[tuple[str, str]] = []
    for uid in sorted(name for name in _list_names(pods) if _UID.fullmatch(name)):
        with _descend(pods, (uid, *_VOLUMES), scan) as volumes:
            present = _list_names(volumes) if volumes is not None else ()
        names = sorted(name for name in present if _COPY.fullmatch(name))
        taken = names[: min(_MAX_COPIES_PER_POD, MAX_COPIES - len(copies))]
        copies += [(uid, name) for name in taken]
        scan.left_out += len(names) - len(taken)
    return copies


@contextmanager
def _descend(folder: int, parts: tuple[str, ...], scan: Scan) -> Iterator[int | None]:
    """Open nested folders without following links; yield None if an entry is missing or is not a folder."""
    opened: list[int] = []
    try:
        for part in parts:
            try:
                opened.append(os.open(part, _FOLDER, dir_fd=opened[-1] if opened else folder))
            except OSError as exc:
                scan.note_closed(exc)
                yield None
                return
        yield opened[-1]
    finally:
        for each in opened:
            os.close(each)


def _scan_copy(pods: int, uid: str, name: str, budget: _Budget, scan: Scan) -> CopyReport | None:
    with _descend(pods, (uid, *_VOLUMES, name), scan) as copy:
        if copy is None:
            return None
        try:
            marker = os.stat(MARKER, dir_fd=copy, follow_symlinks=False)
        except OSError as exc:
            scan.note_closed(exc)
            scan.unfilled += exc.errno in _ABSENT
            return None
        if not stat.S_ISREG(marker.st_mode):
            scan.unfilled += 1
            return None
        count = _Count(marker)
        try:
            _walk(copy, (), budget, count, scan)
        except _ExhaustedError:
            count.bounded = True
        return CopyReport(
            pod=uid,
            volume=name,
            triton=count.triton,
            vllm=count.vllm,
            other=count.other,
            new_folders=sum(count.keys.values()),
            bounded=count.bounded,
        )


def _walk(folder: int, parts: tuple[str, ...], budget: _Budget, count: _Count, scan: Scan) -> None:
    try:
        entries = os.scandir(folder)
    except OSError as exc:
        scan.note_closed(exc)
        return
    with entries:
        for entry in entries:
            budget.take()
            try:
                found = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                # The entry was deleted during the walk.
                continue
            if stat.S_ISDIR(found.st_mode):
                if len(parts) >= _MAX_DEPTH or found.st_dev != count.marker.st_dev:
                    count.bounded = True
                    continue
                before = scan.closed
                with _descend(folder, (entry.name,), scan) as below:
                    if below is not None:
                        _walk(below, (*parts, entry.name), budget, count, scan)
                # The workload may have created files in a folder that cannot be read.
                count.bounded |= scan.closed > before
            elif stat.S_ISREG(found.st_mode) and not _PASSING.fullmatch(entry.name) and entry.name != MARKER:
                count.add(parts, made=_is_made_after(found, count.marker))


def _is_made_after(found: os.stat_result, marker: os.stat_result) -> bool:
    # Both times must be newer than the marker. The mtime of a copied file may be in the future, and `chown -R` in a pod
    # changes the ctime of all files.
    return found.st_mtime_ns > marker.st_mtime_ns and found.st_ctime_ns >= marker.st_ctime_ns


def _find_key(parts: tuple[str, ...]) -> str:
    """Return the folder in vLLM's cache whose name is a key; empty if the path contains no such folder."""
    if _VLLM not in parts:
        return ""
    below = parts[parts.index(_VLLM) + 1 :]
    below = below[1:] if below[:1] == (_AOT,) else below
    return below[0] if below else ""
