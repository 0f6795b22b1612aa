"""What an extracted cache holds, as one digest, and whether it still does.

The digest is the sha256 over one entry for each file, sorted by path: its sha256 in hexadecimal digits, a space, its
size in decimal digits, a space, its path below the cache, a zero byte. Folders, owners, modes and times are not part of
it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelkit.kernelcache.extraction.integrity.empty_folders import remove_if_empty
from accelkit.kernelcache.extraction.record import CompletionRecord
from accelkit.kernelcache.extraction.rules import MAX_DEPTH, MAX_PATH_BYTES, Limits

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PART_BYTES: Final = 4 << 20
# Below, handing over costs more than it saves.
_LARGE_BYTES: Final = 256 << 10
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class FileContent:
    """Of one file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> FileContent:
        """Return the content of a file that holds these bytes."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class ContentVerdict:
    """Whether a cache is as it was extracted.

    Attributes:
        holds: None where its record does not say what it held.
        difference: what differs first; empty where nothing does.
        digest: of what it holds now; empty where it differs so much that this was not looked for.
    """

    holds: bool | None
    difference: str = ""
    digest: str = ""


class StreamHash:
    """The sha256 of what is written in parts, which a thread beside the writer computes.

    Args:
        thread: of one worker.
        size: of the file, in bytes.
    """

    def __init__(self, thread: ThreadPoolExecutor, size: int) -> None:
        self._thread = thread if size >= _LARGE_BYTES else None
        self._hash = hashlib.sha256()
        self._last: Future[None] | None = None

    def update(self, part: memoryview) -> None:
        """Take the next part, which must not change; at most one is on its way."""
        if self._thread is None:
            self._hash.update(part)
            return
        if self._last is not None:
            self._last.result()
        self._last = self._thread.submit(self._hash.update, part)

    def finish(self) -> str:
        """Return the hexadecimal digest of all parts."""
        if self._last is not None:
            self._last.result()
        return self._hash.hexdigest()


def digest_contents(contents: Mapping[str, FileContent]) -> str:
    """Return the digest of a cache whose files are these, by path below it: `sha256:…`."""
    whole = hashlib.sha256()
    for path in sorted(contents, key=os.fsencode):
        found = contents[path]
        whole.update(f"{found.sha256} {found.size} ".encode() + os.fsencode(path) + b"\0")
    return f"sha256:{whole.hexdigest()}"


def verify_content(
    cache: Path, record: CompletionRecord, rest: Callable[[float], bool] = lambda _: True
) -> ContentVerdict | None:
    """Compare what a cache holds with what its record says, file by file; nothing else may lie there.

    Args:
        cache: the folder of its files.
        record: of it.
        rest: called after each part with the seconds that it took; it may sleep, and returns whether to go on.

    Returns:
        The verdict; None where `rest` ended it.

    Raises:
        OSError: a file cannot be read, so that nobody knows.
    """
    contents: dict[str, FileContent] = {}
    found = 0
    try:
        files = _survey(cache, record)
        for path, size in files:
            content = _read(cache, path, size, rest)
            if content is None:
                return None
            contents[path] = content
            found += size
    except _DifferenceError as exc:
        return ContentVerdict(holds=False, difference=str(exc))
    if (len(contents), found) != (record.files, record.size_bytes):
        told = f"{len(contents)} files of {found} bytes, and not {record.files} of {record.size_bytes}"
        return ContentVerdict(holds=False, difference=f"there are {told}")
    digest = digest_contents(contents)
    if not record.content_digest:
        return ContentVerdict(None, digest=digest)
    if digest != record.content_digest:
        return ContentVerdict(holds=False, difference="files have other content, or other names", digest=digest)
    return ContentVerdict(holds=True, digest=digest)


class _DifferenceError(Exception):
    """It cannot be what was extracted."""


def _survey(cache: Path, record: CompletionRecord) -> list[tuple[str, int]]:
    """Return paths and sizes of all files, as far as they can be those of the record."""
    found: list[tuple[str, int]] = []
    left, folders = record.size_bytes, 0
    for path, status in _walk(cache):
        is_folder = stat.S_ISDIR(status.st_mode)
        folders += is_folder
        if len(os.fsencode(path)) > MAX_PATH_BYTES or path.count("/") >= MAX_DEPTH or folders > Limits().files:
            # The kubelet makes the folders of a mount's subPath where they are not there, whoever asks for it.
            if is_folder and remove_if_empty(cache, path):
                continue
            raise _DifferenceError(f"{_show(path)} lies deeper than any file of an image, or is one of too many")
        if is_folder:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _DifferenceError(f"{_show(path)} is no file")
        left -= status.st_size
        if len(found) == record.files or left < 0:
            raise _DifferenceError(f"there are more than {record.files} files of {record.size_bytes} bytes")
        found.append((path, status.st_size))
    return found


def _walk(cache: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all entries below a folder; links are not followed. What is too deep has to end it from outside."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            opened = os.scandir(cache / folder)
        except FileNotFoundError:
            # It was removed since.
            continue
        with opened as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                status = entry.stat(follow_symlinks=False)
                yield path, status
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)


def _read(cache: Path, path: str, size: int, rest: Callable[[float], bool]) -> FileContent | None:
    """Hash one file; None where it was ended."""
    file = os.open(cache / path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise _DifferenceError(f"{_show(path)} is no file")
        whole, left = hashlib.sha256(), size
        while True:
            began = time.monotonic()
            part = os.read(file, _PART_BYTES)
            whole.update(part)
            left -= len(part)
            if left < 0 or (left and not part):
                raise _DifferenceError(f"{_show(path)} changes its size")
            if not rest(time.monotonic() - began):
                return None
            if not part:
                return FileContent(size, whole.hexdigest())
    finally:
        os.close(file)


def _show(path: str) -> str:
    return ascii(path[:_SHOWN_CHARACTERS])
