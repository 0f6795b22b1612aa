"""Extraction of a layer to a single folder, without writing outside the folder."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.archive import ArchiveEntry, Pieces, read_entries
from accelkit.kernelcache.extraction.inflate import decompress
from accelkit.kernelcache.extraction.integrity.content import FileContent, StreamHash
from accelkit.kernelcache.extraction.rules import Limits, normalize_path

_FILE_MODE = 0o644
_FOLDER_MODE = 0o755
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE_BYTES = 1 << 20


class Allowance:
    """The total size and number of entries in all layers of an image, compared with the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = Lock()
        self.files = 0
        self.bytes = 0

    def take(self, path: str, size: int) -> None:
        """Add one entry of `size` bytes to the totals, before the entry is written.

        Raises:
            CacheError: the entry is too large, or the image contains too many bytes or entries.
        """
        with self._lock:
            self.files += 1
            self.bytes += size
            files, total = self.files, self.bytes
        if size > self._limits.file_bytes:
            raise CacheError(f"{path} in the image has {size} bytes; a file may have at most {self._limits.file_bytes}")
        if total > self._limits.total_bytes:
            raise CacheError(
                f"the files of the image have more than {self._limits.total_bytes} bytes",
                next_step="check who built the image, and raise the limit if the size is correct",
            )
        if files > self._limits.files:
            raise CacheError(f"the image has more than {self._limits.files} files and folders")


def unpack(
    chunks: Iterable[bytes], media_type: str, folder: Path, allowance: Allowance, prefixes: tuple[str, ...]
) -> dict[str, FileContent]:
    """Write the entries of a layer that are in certain folders of the archive.

    Owners and modes in the archive are ignored. All users can read the files, only the extracting user can write to
    them, and no file is executable or set-uid. Modification times are preserved, except times in the future, because
    ninja rebuilds files that are older than their sources. For example, the sources of FlashInfer are in the image of
    the workload.

    Args:
        chunks: the compressed bytes of the layer as they arrive.
        media_type: the media type of the layer.
        folder: an empty folder; no other process may write to it during the call.
        allowance: the limits that all layers of the image share.
        prefixes: the folders of the archive to unpack, such as `io.triton.cache`; all other entries are skipped.

    Returns:
        The size and hash of each file, keyed by path.

    Raises:
        CacheError: the layer cannot be read, or has invalid content.
        OSError: the disk is full or not writable.
    """
    pieces = Pieces(decompress(chunks, media_type))
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    folders = {""}
    contents = {}
    hashing = ThreadPoolExecutor(1)
    try:
        for entry in read_entries(pieces):
            path = normalize_path(entry.name)
            allowance.take(path, entry.size)
            if not any(path == each or path.startswith(each + "/") for each in prefixes):
                _skip(pieces, entry.size)
            elif entry.is_folder:
                _make_folder(root, path, folders, allowance)
            else:
                _make_parent(root, path, folders, allowance)
                contents[path] = _write(root, path, entry, pieces, hashing)
    finally:
        hashing.shutdown()
        os.close(root)
    return contents


def _make_folder(root: int, path: str, created: set[str], allowance: Allowance) -> None:
    if path in created:
        return
    _make_parent(root, path, created, allowance)
    try:
        os.mkdir(path, dir_fd=root)
        os.chmod(path, _FOLDER_MODE, dir_fd=root)
    except FileExistsError as exc:
        raise CacheError(f"the archive contains {path} both as a file and as a folder") from exc
    created.add(path)


def _make_parent(root: int, path: str, created: set[str], allowance: Allowance) -> None:
    """Create the parent folders of a path. They count towards the limits even without entries in the archive."""
    parent = path.rpartition("/")[0]
    if parent not in created:
        allowance.take(parent, 0)
        _make_folder(root, parent, created, allowance)


def _write(root: int, path: str, entry: ArchiveEntry, pieces: Pieces, hashing: ThreadPoolExecutor) -> FileContent:
    try:
        file = os.open(path, _NEW_FILE, _FILE_MODE, dir_fd=root)
    except FileExistsError as exc:
        raise CacheError(f"the archive contains {path} twice") from exc
    size, content = entry.size, StreamHash(hashing, entry.size)
    try:
        # Set the mode explicitly, because the umask may prevent other users from reading the cache.
        os.fchmod(file, _FILE_MODE)
        while size:
            part = pieces.read_some(min(size, _WRITE_BYTES))
            if not part:
                raise CacheError(f"the archive is truncated within {path}")
            size -= len(part)
            content.update(part)
            while part:
                part = part[os.write(file, part) :]
        if 0 < entry.modified < time.time():
            os.utime(file, (entry.modified, entry.modified))
        return FileContent(entry.size, content.finish())
    finally:
        os.close(file)


def _skip(pieces: Pieces, size: int) -> None:
    while size:
        part = pieces.read_some(size)
        if not part:
            raise CacheError("the archive is truncated")
        size -= len(part)
