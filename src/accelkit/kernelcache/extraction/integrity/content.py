"""Content digest of an extracted cache, and a check that the content has not changed.

The digest is the SHA-256 of a list with one entry per file, sorted by path. Each entry consists of the file's SHA-256
in hexadecimal digits, a space, its size in decimal digits, a space, its path relative to the cache, and a zero byte.
The digest does not include folders, owners, modes or times.
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
# For smaller files, the overhead of a thread exceeds the time that it saves.
_LARGE_BYTES: Final = 256 << 10
_MAX_PATH_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class FileContent:
    """The size and the hash of one file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> FileContent:
        """Return the size and the hash of this content."""
        return cls(len(data), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class ContentVerdict:
    """The result of checking the content of a cache.

    Attributes:
        holds: whether the content is unchanged; None if the record does not contain a digest.
        difference: the first difference; empty if there is none.
        digest: the digest of the current content; empty if a difference was found before it was computed.
    """

    holds: bool | None
    difference: str = ""
    digest: str = ""


class StreamHash:
    """The SHA-256 of a file that is written in parts. A thread computes it while the file is being written.

    Args:
        thread: an executor with one worker.
        size: the size of the file in bytes.
    """

    def __init__(self, thread: ThreadPoolExecutor, size: int) -> None:
        self._thread = thread if size >= _LARGE_BYTES else None
        self._hash = hashlib.sha256()
        self._last: Future[None] | None = None

    def update(self, part: memoryview) -> None:
        """Pass the next part to the thread, after the previous part is hashed. The caller must not change the part."""
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
    """Return the digest (`sha256:…`) of a cache that consists of these files, keyed by path relative to the cache."""
    whole = hashlib.sha256()
    for path in sorted(contents, key=os.fsencode):
        found = contents[path]
        whole.update(f"{found.sha256} {found.size} ".encode() + os.fsencode(path) + b"\0")
    return f"sha256:{whole.hexdigest()}"


def verify_content(
    cache: Path, record: CompletionRecord, rest: Callable[[float], bool] = lambda _: True
) -> ContentVerdict | None:
    """Compare the content of a cache with its record, file by file. Additional files are reported as a difference.

    Args:
        cache: the folder with the files of the cache.
        record: the record of the cache.
        rest: a function that is called after each part with the time spent on the part, in seconds. It may sleep, and
            returns whether to continue.

    Returns:
        The verdict; None if `rest` stopped the check.

    Raises:
        OSError: a file cannot be read, so the result is unknown.
    """
    contents: dict[str, FileContent] = {}
    found = 0
    try:
        files = _list_files(cache, record)
        for path, size in files:
            content = _read(cache, path, size, rest)
            if content is None:
                return None
            contents[path] = content
            found += size
    except _DifferenceError as exc:
        return ContentVerdict(holds=False, difference=str(exc))
    if (len(contents), found) != (record.files, record.size_bytes):
        sizes = f"{len(contents)} files of {found} bytes instead of {record.files} files of {record.size_bytes} bytes"
        return ContentVerdict(holds=False, difference=f"the cache has {sizes}")
    digest = digest_contents(contents)
    if not record.content_digest:
        return ContentVerdict(None, digest=digest)
    if digest != record.content_digest:
        return ContentVerdict(holds=False, difference="files were changed or renamed", digest=digest)
    return ContentVerdict(holds=True, digest=digest)


class _DifferenceError(Exception):
    """The current content differs from the extracted content."""


def _list_files(cache: Path, record: CompletionRecord) -> list[tuple[str, int]]:
    """Return the paths and sizes of all files; raise an error if these already differ from the record."""
    found: list[tuple[str, int]] = []
    left, folders = record.size_bytes, 0
    for path, status in _walk(cache):
        is_folder = stat.S_ISDIR(status.st_mode)
        folders += is_folder
        if len(os.fsencode(path)) > MAX_PATH_BYTES or path.count("/") >= MAX_DEPTH or folders > Limits().files:
            # If the subPath of a mount does not exist, the kubelet creates the folder.
            if is_folder and remove_if_empty(cache, path):
                continue
            raise _DifferenceError(
                f"{_quote(path)} exceeds the limits on the depth or the number of folders of an image"
            )
        if is_folder:
            continue
        if not stat.S_ISREG(status.st_mode):
            raise _DifferenceError(f"{_quote(path)} is not a file")
        left -= status.st_size
        if len(found) == record.files or left < 0:
            raise _DifferenceError(f"the cache has more than {record.files} files of {record.size_bytes} bytes")
        found.append((path, status.st_size))
    return found


def _walk(cache: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all entries below a folder without following symbolic links; the caller must limit the depth."""
    pending = [""]
    while pending:
        folder = pending.pop()
        try:
            opened = os.scandir(cache / folder)
        except FileNotFoundError:
            # The folder was removed after its parent was read.
            continue
        with opened as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                status = entry.stat(follow_symlinks=False)
                yield path, status
                if stat.S_ISDIR(status.st_mode):
                    pending.append(path)


def _read(cache: Path, path: str, size: int, rest: Callable[[float], bool]) -> FileContent | None:
    """Return the size and the hash of one file; None if `rest` stopped the check."""
    file = os.open(cache / path, _READ)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise _DifferenceError(f"{_quote(path)} is not a file")
        whole, left = hashlib.sha256(), size
        while True:
            began = time.monotonic()
            part = os.read(file, _PART_BYTES)
            whole.update(part)
            left -= len(part)
            if left < 0 or (left and not part):
                raise _DifferenceError(f"the size of {_quote(path)} is changing")
            if not rest(time.monotonic() - began):
                return None
            if not part:
                return FileContent(size, whole.hexdigest())
    finally:
        os.close(file)


def _quote(path: str) -> str:
    return ascii(path[:_MAX_PATH_CHARACTERS])
