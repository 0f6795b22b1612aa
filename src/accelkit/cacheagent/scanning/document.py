"""File with the scan results, which is replaced atomically and parsed as untrusted input."""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Final

import msgspec

from accelkit.cacheagent.reporting.effect import MissedFiles, MissKind

SCAN_SECONDS: Final = 15.0
MAX_COPIES: Final = 1000
_FILE: Final = "copies.json"
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 20
# Results that are older than several scans are ignored.
_STALE_SECONDS: Final = 8 * SCAN_SECONDS

_Number = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]


class CopyReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files that a pod created in one private copy after the copy was filled.

    Attributes:
        pod: UID of the pod.
        volume: volume name of the copy.
        new_folders: number of folders in vLLM's cache that contain only new files.
        bounded: whether the scan reached its limit.
    """

    pod: Annotated[str, msgspec.Meta(pattern="^[0-9a-f-]{32,36}$")]
    volume: Annotated[str, msgspec.Meta(pattern="^[a-z0-9-]{1,80}$")]
    triton: _Number = 0
    vllm: _Number = 0
    other: _Number = 0
    new_folders: _Number = 0
    bounded: bool = False

    def convert(self) -> MissedFiles:
        """Return the counts as `MissedFiles`, which the agent uses."""
        kinds = {MissKind.TRITON: self.triton, MissKind.VLLM: self.vllm, MissKind.OTHER: self.other}
        return MissedFiles(
            self.triton + self.vllm + self.other,
            {kind: count for kind, count in kinds.items() if count},
            self.new_folders,
            bounded=self.bounded,
        )


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    at: float
    copies: Annotated[tuple[CopyReport, ...], msgspec.Meta(max_length=MAX_COPIES)]
    left_out: _Number = 0
    version: int = _VERSION


_decoder = msgspec.json.Decoder(_Document)


def write_document(
    folder: Path, copies: Iterable[CopyReport], left_out: int, *, clock: Callable[[], float] = time.monotonic
) -> None:
    """Write the scan results to the shared folder.

    Args:
        folder: folder that is shared with the agent.
        copies: at most `MAX_COPIES` reports.
        left_out: number of copies that were not scanned.
        clock: function that returns the seconds since the machine was started. The time is the same in all containers.

    Raises:
        OSError: the folder cannot be written.
    """
    new = folder / f".{_FILE}.new"
    new.write_bytes(msgspec.json.encode(_Document(clock(), tuple(copies), left_out)))
    new.replace(folder / _FILE)


def read_missed(folder: Path, *, clock: Callable[[], float] = time.monotonic) -> dict[tuple[str, str], MissedFiles]:
    """Return the files that pods created, keyed by pod UID and volume; empty if the results are outdated or invalid.

    Args:
        folder: folder that is shared with the scan.
        clock: the same clock as in the scan.
    """
    try:
        content = _read_file(folder / _FILE)
        document = _decoder.decode(content) if len(content) <= _MAX_BYTES else None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if document is None or document.version != _VERSION or not math.isfinite(document.at):
        return {}
    if not 0 <= clock() - document.at <= _STALE_SECONDS:
        return {}
    return {(each.pod, each.volume): each.convert() for each in document.copies}


def _read_file(path: Path) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # Accept only regular files.
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return b""
        with os.fdopen(os.dup(file), "rb") as opened:
            return opened.read(_MAX_BYTES + 1)
    finally:
        os.close(file)
