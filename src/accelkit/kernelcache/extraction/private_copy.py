"""Private copy of an extracted cache: a writable folder that only one pod uses.

The source is mounted read-only, so it does not change during the copy. A marker file is written when the copy is
complete. After that, changes by the workload are preserved, even if the containers of the pod restart.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.record import HIDDEN
from accelkit.kernelcache.extraction.rules import Limits
from accelkit.kernelcache.formats.relocation.moved_tree import MOST_READ, MovedTree

MARKER: Final = ".accelkit-private-copy.json"
_BEGUN: Final = ".accelkit-private-copy.begun"
_VERSION: Final = 1
# Only this pod mounts the folder. The user IDs of its containers are unknown.
_FILE_MODE, _FOLDER_MODE = 0o666, 0o777
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# FICLONE from linux/fs.h: the source and the copy share their blocks until one of them is modified.
_SHARE_BLOCKS: Final = 0x40049409
_PART_BYTES: Final = 64 << 20
_BUFFER_BYTES: Final = 1 << 20
_RESERVE_BYTES: Final = 16 << 20
_UNSUPPORTED: Final = {
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EBADF,
    errno.EPERM,
}
# A folder that belongs to the file system, not to the cache.
_RECOVERED: Final = "lost+found"


class PrivateCopy(msgspec.Struct, frozen=True):
    """The marker of a complete private copy. All files that are newer than the marker were written by the workload.

    Attributes:
        files: the number of copied files.
        size_bytes: the size of the copied files.
        skipped: the number of links, devices and other special files that were not copied.
        mount_path: the mount path to which paths in files were changed; empty if all files were copied unchanged.
        version: the format version of this record.
    """

    files: int
    size_bytes: int
    skipped: int = 0
    mount_path: str = ""
    version: int = _VERSION


_private_copy = msgspec.json.Decoder(PrivateCopy)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file or folder of the source."""

    path: str
    status: os.stat_result


def make_private_copy(
    source: Path, target: Path, moved: MovedTree | None = None, *, seconds: float = 900.0
) -> PrivateCopy | None:
    """Copy a cache, unless a complete copy already exists.

    Args:
        source: the root of the cache.
        target: an empty folder, or a folder with an unfinished or complete copy from an earlier call.
        moved: the path at which the workload mounts the copy, which is written to files that contain paths; None to
            copy all files unchanged.
        seconds: the time limit.

    Returns:
        The record of the copy, from this or an earlier call; None if a complete copy exists, but the workload has made
        it inaccessible.

    Raises:
        CacheError: the source is not a folder, the target contains other files or has too little space, the copy took
            too long, or the paths in a file cannot be rewritten.
        OSError: the disk is full or not writable.
    """
    try:
        if (done := _read_marker(target)) is not None:
            return done
    except PermissionError:
        # All users in the pod can access the folder until a container denies access, for example with `chmod -R`.
        return None
    deadline = time.monotonic() + seconds
    if not source.is_dir() or not target.is_dir():
        raise CacheError(f"{source if not source.is_dir() else target} is not a folder")
    _clear(target)
    entries, skipped = _list_entries(source, deadline)
    size = sum(each.status.st_size for each in entries if stat.S_ISREG(each.status.st_mode))
    _check_free_space(target, size)
    os.close(os.open(target / _BEGUN, _NEW, 0o600))
    files = 0
    for each in entries:
        if stat.S_ISDIR(each.status.st_mode):
            (target / each.path).mkdir()
            (target / each.path).chmod(_FOLDER_MODE)
        else:
            _copy_file(source, target, each, moved, deadline)
            files += 1
    # Modification times are set last, because writing to a folder changes its modification time.
    for each in reversed(entries):
        if stat.S_ISDIR(each.status.st_mode):
            os.utime(target / each.path, ns=(each.status.st_atime_ns, each.status.st_mtime_ns))
    done = PrivateCopy(files, size, skipped, moved.mount_path if moved else "")
    _write_marker(target, done)
    return done


def _list_entries(source: Path, deadline: float) -> tuple[list[_Entry], int]:
    """Return the files and folders below a folder, parents first, and the number of other entries."""
    found: list[_Entry] = []
    skipped = 0
    pending = [""]
    most = Limits().files
    while pending:
        folder = pending.pop()
        for entry in _scan(source / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            status = entry.stat(follow_symlinks=False)
            if path in {_RECOVERED, HIDDEN}:
                continue
            if stat.S_ISDIR(status.st_mode):
                pending.append(path)
            elif not stat.S_ISREG(status.st_mode):
                skipped += 1
                continue
            found.append(_Entry(path, status))
        if len(found) > most:
            raise CacheError(f"{source} has more than {most} files and folders")
        _check_time(deadline)
    found.sort(key=lambda each: each.path)
    return found, skipped


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _copy_file(source: Path, target: Path, entry: _Entry, moved: MovedTree | None, deadline: float) -> None:
    reading = os.open(source / entry.path, _READ)
    try:
        status = os.fstat(reading)
        if not stat.S_ISREG(status.st_mode):
            raise CacheError(f"{entry.path} is no longer a file; it was replaced during the copy")
        writing = os.open(target / entry.path, _NEW, 0o600)
        try:
            if moved is not None and moved.concerns(entry.path):
                with os.fdopen(os.dup(reading), "rb") as file:
                    document = file.read(MOST_READ)
                _write_all(writing, moved.rewrite(entry.path, document, lambda within: (source / within).exists()))
            else:
                _copy_content(reading, writing, status.st_size, deadline)
            os.fchmod(writing, (status.st_mode & 0o111) | _FILE_MODE)
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_content(reading: int, writing: int, size: int, deadline: float) -> None:
    """Copy a file with the best method that the file system supports: shared blocks, a kernel copy, or a byte copy."""
    try:
        fcntl.ioctl(writing, _SHARE_BLOCKS, reading)
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
    else:
        return
    copied = 0
    while copied < size:
        _check_time(deadline)
        try:
            part = os.copy_file_range(reading, writing, min(_PART_BYTES, size - copied))
        except OSError as exc:
            if exc.errno not in _UNSUPPORTED:
                raise
            part = 0
        if not part:
            # Some file systems report success for a copy of zero bytes.
            _copy_bytes(reading, writing, deadline)
            return
        copied += part


def _copy_bytes(reading: int, writing: int, deadline: float) -> None:
    while part := os.read(reading, _BUFFER_BYTES):
        _check_time(deadline)
        _write_all(writing, part)


def _write_all(writing: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(writing, view) :]


def _check_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise CacheError(
            "cannot copy the cache within the time limit", next_step="check the node's disk, or increase --seconds"
        )


def _check_free_space(target: Path, size: int) -> None:
    disk = os.statvfs(target)
    free = disk.f_bavail * disk.f_frsize
    if free < size + _RESERVE_BYTES:
        raise CacheError(
            f"the copy needs {size} bytes, but {target} has {free} bytes free",
            next_step="free space on the disk that holds the node's pods, or mount the cache read-only without a copy",
        )


def _clear(target: Path) -> None:
    """Delete the files of an unfinished copy.

    Raises:
        CacheError: the folder contains other files.
    """
    entries = list(_scan(target))
    if not entries:
        return
    # A volume that is a separate disk contains the folder `lost+found`.
    foreign = [each.name for each in entries if each.name != _RECOVERED]
    if foreign and not (target / _BEGUN).is_file():
        raise CacheError(
            f"{target} contains {foreign[0]!r}, but no unfinished copy", next_step="set --to to an empty folder"
        )
    for each in entries:
        if each.name in {_RECOVERED, _BEGUN}:
            continue
        if each.is_dir(follow_symlinks=False):
            shutil.rmtree(each.path)
        else:
            Path(each.path).unlink()
    (target / _BEGUN).unlink(missing_ok=True)


def _read_marker(target: Path) -> PrivateCopy | None:
    try:
        done = _private_copy.decode((target / MARKER).read_bytes())
    except PermissionError:
        raise
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return done if done.version == _VERSION else None


def _write_marker(target: Path, done: PrivateCopy) -> None:
    # The marker of a complete copy appears only when the copy is complete, because a rename replaces the marker of the
    # unfinished copy.
    (target / _BEGUN).write_bytes(msgspec.json.encode(done))
    (target / _BEGUN).chmod(0o644)
    (target / _BEGUN).rename(target / MARKER)
