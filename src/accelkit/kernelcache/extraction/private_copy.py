"""Copies an extracted cache into a folder of one pod's own, where the workload may write.

The source is mounted read-only, so nobody changes it meanwhile. A marker in the copy says that it is whole; it stays as
the workload changed it from then on, however often the containers of its pod start again.
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
# The folder is the pod's alone, and its containers may run as any user, which nobody can know beforehand.
_FOR_ALL_FILES, _FOR_ALL_FOLDERS = 0o666, 0o777
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# FICLONE of linux/fs.h: the copy shares the blocks until one of them is written to.
_SHARE_BLOCKS: Final = 0x40049409
_PART_BYTES: Final = 64 << 20
_BUFFER_BYTES: Final = 1 << 20
_RESERVE_BYTES: Final = 16 << 20
_NOT_THERE: Final = {
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EBADF,
    errno.EPERM,
}
# Of the file system itself, not of the cache.
_RECOVERED: Final = "lost+found"


class PrivateCopy(msgspec.Struct, frozen=True):
    """A private copy that is whole; what is newer than the file that says so was written by the workload.

    Attributes:
        files: how many were copied.
        size_bytes: of them.
        skipped: links, devices and the like that were left out.
        mount_path: for which files that name others were rewritten; empty where they stayed as they were.
        version: of this record.
    """

    files: int
    size_bytes: int
    skipped: int = 0
    mount_path: str = ""
    version: int = _VERSION


_private_copy = msgspec.json.Decoder(PrivateCopy)


@dataclass(frozen=True, slots=True)
class _Found:
    """A file or folder of the source."""

    path: str
    status: os.stat_result


def make_private_copy(
    source: Path, target: Path, moved: MovedTree | None = None, *, seconds: float = 900.0
) -> PrivateCopy | None:
    """Copy a cache, once.

    Args:
        source: the cache's root.
        target: an empty folder, or one that this function has begun or finished to fill.
        moved: where the workload sees the copy; None to leave files that name others as they are.
        seconds: how long it may take.

    Returns:
        What was copied, now or before; None where the workload has it since, and lets nobody else look.

    Raises:
        CacheError: the source is no folder, the target is in use otherwise or has too little room, it took too long, or
            a file that names others cannot be rewritten.
        OSError: the disk is full, or cannot be written.
    """
    try:
        if (done := _read_marker(target)) is not None:
            return done
    except PermissionError:
        # A folder of a pod is open to all of its users until one of them closes it, as `chmod -R` does.
        return None
    deadline = time.monotonic() + seconds
    if not source.is_dir() or not target.is_dir():
        raise CacheError(f"{source if not source.is_dir() else target} is no folder")
    _clear(target)
    found, skipped = _survey(source, deadline)
    size = sum(each.status.st_size for each in found if stat.S_ISREG(each.status.st_mode))
    _check_room(target, size)
    os.close(os.open(target / _BEGUN, _NEW, 0o600))
    files = 0
    for each in found:
        if stat.S_ISDIR(each.status.st_mode):
            (target / each.path).mkdir()
            (target / each.path).chmod(_FOR_ALL_FOLDERS)
        else:
            _copy_file(source, target, each, moved, deadline)
            files += 1
    # What is written into a folder changes its time.
    for each in reversed(found):
        if stat.S_ISDIR(each.status.st_mode):
            os.utime(target / each.path, ns=(each.status.st_atime_ns, each.status.st_mtime_ns))
    done = PrivateCopy(files, size, skipped, moved.mount_path if moved else "")
    _write_marker(target, done)
    return done


def _survey(source: Path, deadline: float) -> tuple[list[_Found], int]:
    """Return the files and folders below a folder, folders before what is in them, and how many others there are."""
    found: list[_Found] = []
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
            found.append(_Found(path, status))
        if len(found) > most:
            raise CacheError(f"{source} has more than {most} files and folders")
        _check_time(deadline)
    found.sort(key=lambda each: each.path)
    return found, skipped


def _scan(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from entries


def _copy_file(source: Path, target: Path, found: _Found, moved: MovedTree | None, deadline: float) -> None:
    reading = os.open(source / found.path, _READ)
    try:
        status = os.fstat(reading)
        if not stat.S_ISREG(status.st_mode):
            raise CacheError(f"{found.path} has become something else than a file while it was copied")
        writing = os.open(target / found.path, _NEW, 0o600)
        try:
            if moved is not None and moved.concerns(found.path):
                with os.fdopen(os.dup(reading), "rb") as file:
                    document = file.read(MOST_READ)
                _write_all(writing, moved.rewrite(found.path, document, lambda within: (source / within).exists()))
            else:
                _copy_content(reading, writing, status.st_size, deadline)
            os.fchmod(writing, (status.st_mode & 0o111) | _FOR_ALL_FILES)
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_content(reading: int, writing: int, size: int, deadline: float) -> None:
    """Copy by what the file system offers: shared blocks, a copy within the kernel, or bytes."""
    try:
        fcntl.ioctl(writing, _SHARE_BLOCKS, reading)
    except OSError as exc:
        if exc.errno not in _NOT_THERE:
            raise
    else:
        return
    copied = 0
    while copied < size:
        _check_time(deadline)
        try:
            part = os.copy_file_range(reading, writing, min(_PART_BYTES, size - copied))
        except OSError as exc:
            if exc.errno not in _NOT_THERE:
                raise
            part = 0
        if not part:
            # Also where the kernel says that it has copied nothing, which some file systems do.
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
        raise CacheError("the copy took too long", next_step="look at the node's disk, or allow more --seconds")


def _check_room(target: Path, size: int) -> None:
    room = os.statvfs(target)
    free = room.f_bavail * room.f_frsize
    if free < size + _RESERVE_BYTES:
        raise CacheError(
            f"the copy needs {size} bytes, and {target} has {free} free",
            next_step="make room on the disk of the node's pods, or mount the cache read-only, which needs no copy",
        )


def _clear(target: Path) -> None:
    """Delete what a copy left that did not end.

    Raises:
        CacheError: something else is there.
    """
    entries = list(_scan(target))
    if not entries:
        return
    # Where the volume is a disk of its own.
    foreign = [each.name for each in entries if each.name != _RECOVERED]
    if foreign and not (target / _BEGUN).is_file():
        raise CacheError(
            f"{target} holds {foreign[0]!r}, and no copy was begun there", next_step="give an empty folder as --to"
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
    # The name appears when all is there; the other goes after it.
    (target / _BEGUN).write_bytes(msgspec.json.encode(done))
    (target / _BEGUN).chmod(0o644)
    (target / _BEGUN).rename(target / MARKER)
