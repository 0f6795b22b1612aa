"""Counts what pods made in their private copies, in folders that they may fill with whatever they like.

Each folder is opened from the one above it and never by a path, so that no link is followed however quickly it is put
there. No file is opened. Names, depths and numbers are bounded, and no name of a pod's making goes any further.
"""

from __future__ import annotations

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
# Of a pod's volume, as the API server allows it; of a pod, as it and kubelets write it.
_COPY: Final = re.compile(re.escape(VOLUME_PREFIX) + r"[a-z0-9-]{1,63}", re.ASCII)
_UID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f-]{23,27}", re.ASCII)
_MAX_COPIES_PER_POD: Final = 32
_MAX_DEPTH: Final = 40
_MAX_ENTRIES: Final = 250_000
_MAX_ALL_ENTRIES: Final = 1_000_000
# Whatever others fill their copies with, so much of each is looked at.
_LEAST_ENTRIES: Final = 1000
_MAX_KEYS: Final = 1000
# Names of Triton's folders: a digest in base 32, of newer releases in base 64.
_TRITON: Final = re.compile(r"[A-Z2-7]{52}|[A-Za-z0-9_-]{43}", re.ASCII)
_VLLM: Final = "torch_compile_cache"
_AOT: Final = "torch_aot_compile"
# What comes and goes with hits too.
_PASSING: Final = re.compile(r".*\.lock|tmp\..*|\..*\.tmp|.*\.pyc", re.ASCII | re.DOTALL)


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
    """What was found in one copy so far."""

    triton: int = 0
    vllm: int = 0
    other: int = 0
    # Of vLLM's folders, whether all in them is the workload's.
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


def scan_copies(pods_folder: Path = PODS_FOLDER) -> tuple[list[CopyReport], int]:
    """Return what was found in each copy that is filled, and how many were left out since there are too many.

    Args:
        pods_folder: of the kubelet.

    Raises:
        OSError: the kubelet's folder cannot be read.
    """
    reports: list[CopyReport] = []
    left = _MAX_ALL_ENTRIES
    pods = os.open(pods_folder, _FOLDER)
    try:
        copies, left_out = _find_copies(pods)
        for number, (uid, name) in enumerate(copies):
            share = max(_LEAST_ENTRIES, left // (len(copies) - number))
            budget = _Budget(min(_MAX_ENTRIES, share))
            report = _scan_copy(pods, uid, name, budget)
            left -= min(_MAX_ENTRIES, share) - max(0, budget.entries)
            if report is not None:
                reports.append(report)
    finally:
        os.close(pods)
    return reports, left_out


def _list_names(folder: int) -> list[str]:
    return os.listdir(folder)


def _find_copies(pods: int) -> tuple[list[tuple[str, str]], int]:
    """Return pods and volumes of copies, and how many more there are than are looked at."""
    copies: list[tuple[str, str]] = []
    left_out = 0
    for uid in sorted(name for name in _list_names(pods) if _UID.fullmatch(name)):
        with _descend(pods, (uid, *_VOLUMES)) as volumes:
            present = _list_names(volumes) if volumes is not None else ()
        names = sorted(name for name in present if _COPY.fullmatch(name))
        taken = names[: min(_MAX_COPIES_PER_POD, MAX_COPIES - len(copies))]
        copies += [(uid, name) for name in taken]
        left_out += len(names) - len(taken)
    return copies, left_out


@contextmanager
def _descend(folder: int, parts: tuple[str, ...]) -> Iterator[int | None]:
    """Open folders one below the other, following no link; None where one is not there or is none."""
    opened: list[int] = []
    try:
        for part in parts:
            try:
                opened.append(os.open(part, _FOLDER, dir_fd=opened[-1] if opened else folder))
            except OSError:
                # Pods come and go, and what is not as the kubelet makes it is none of ours.
                yield None
                return
        yield opened[-1]
    finally:
        for each in opened:
            os.close(each)


def _scan_copy(pods: int, uid: str, name: str, budget: _Budget) -> CopyReport | None:
    with _descend(pods, (uid, *_VOLUMES, name)) as copy:
        if copy is None:
            return None
        try:
            marker = os.stat(MARKER, dir_fd=copy, follow_symlinks=False)
        except OSError:
            # It is being filled, or its pod took the marker away.
            return None
        if not stat.S_ISREG(marker.st_mode):
            return None
        count = _Count()
        try:
            _walk(copy, (), marker, budget, count)
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


def _walk(folder: int, parts: tuple[str, ...], marker: os.stat_result, budget: _Budget, count: _Count) -> None:
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        for entry in entries:
            budget.take()
            try:
                found = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                # Gone meanwhile.
                continue
            if stat.S_ISDIR(found.st_mode):
                if len(parts) >= _MAX_DEPTH or found.st_dev != marker.st_dev:
                    count.bounded = True
                    continue
                with _descend(folder, (entry.name,)) as below:
                    if below is not None:
                        _walk(below, (*parts, entry.name), marker, budget, count)
            elif stat.S_ISREG(found.st_mode) and not _PASSING.fullmatch(entry.name) and entry.name != MARKER:
                count.add(parts, made=found.st_mtime_ns > marker.st_mtime_ns)


def _find_key(parts: tuple[str, ...]) -> str:
    """Return the folder of vLLM's cache that is named by its key; empty where there is none."""
    if _VLLM not in parts:
        return ""
    below = parts[parts.index(_VLLM) + 1 :]
    below = below[1:] if below[:1] == (_AOT,) else below
    return below[0] if below else ""
