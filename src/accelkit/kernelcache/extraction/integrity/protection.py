"""Protection of an extracted cache against writes: files and folders that the file system lets nobody change.

The flag is FS_IMMUTABLE_FL of `chattr +i`. Setting and clearing it takes CAP_LINUX_IMMUTABLE, which no container has by
default; with it set, root in a pod that mounts the cache writable cannot write either. Times of files stay as they are.

Files come first and the cache's own folder last, and the other way round when it is taken off: where that folder has
the flag, all below it has it too, whatever was killed meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

# linux/fs.h; they are declared with `long`, and take an `int`.
_GET_FLAGS: Final = 0x80086601 if struct.calcsize("l") == 8 else 0x80046601  # noqa: PLR2004 - bytes of a long
_SET_FLAGS: Final = 0x40086602 if struct.calcsize("l") == 8 else 0x40046602  # noqa: PLR2004 - the same
_IMMUTABLE: Final = 0x10
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER: Final = _FILE | os.O_DIRECTORY
_PROBE: Final = ".protection"
_NO_SUCH_THING: Final = {errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
_DENIED: Final = {errno.EPERM, errno.EACCES}


class ProtectionState(StrEnum):
    """Whether a cache is protected, and what is in the way.

    NOT_PERMITTED: this process lacks CAP_LINUX_IMMUTABLE. NOT_SUPPORTED: the file system has no such flag. FAILED: the
    disk failed.
    """

    PROTECTED = "protected"
    NOT_PERMITTED = "not-permitted"
    NOT_SUPPORTED = "not-supported"
    FAILED = "failed"


@dataclass(frozen=True)
class Protection:
    """How protecting a cache ended; `message` says why it is not protected, and what to do."""

    state: ProtectionState
    message: str = ""


def protect(cache: Path) -> Protection:
    """Let nobody write a cache's folder and what is below it; what cannot be protected whole stays unprotected."""
    begun = False
    try:
        for path in _list_upwards(cache):
            _set_immutable(path, immutable=True)
            begun = True
    except OSError as exc:
        told = _explain(cache, exc)
        try:
            if begun:
                unprotect(cache)
        except OSError as failed:
            return Protection(ProtectionState.FAILED, f"{told.message}; nor can what was done be undone: {failed}")
        return told
    return Protection(ProtectionState.PROTECTED)


def unprotect(tree: Path) -> None:
    """Let a folder and all that is below it be written again.

    Raises:
        OSError: it cannot be, for lack of CAP_LINUX_IMMUTABLE mostly.
    """
    for path in reversed(list(_list_upwards(tree))):
        _set_immutable(path, immutable=False)


def probe(folder: Path) -> Protection:
    """Try on a file of our own whether what lies in a folder could be protected."""
    path = folder / _PROBE
    try:
        if path.exists():
            # Left by a kill.
            _set_immutable(path, immutable=False)
        os.close(os.open(path, _FILE | os.O_CREAT, 0o600))
        _set_immutable(path, immutable=True)
        _set_immutable(path, immutable=False)
        path.unlink()
    except OSError as exc:
        return _explain(folder, exc)
    return Protection(ProtectionState.PROTECTED)


def is_protected(cache: Path) -> bool:
    """Whether nobody can write a cache."""
    try:
        opened = os.open(cache, _FOLDER)
    except OSError:
        return False
    try:
        return bool(_read_flags(opened) & _IMMUTABLE)
    finally:
        os.close(opened)


def delete_tree(tree: Path) -> None:
    """Delete a folder with all that is in it, protected or not; anything else of that name too.

    Raises:
        OSError: it cannot be deleted.
    """
    if tree.is_symlink() or not tree.is_dir():
        tree.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(tree)
    except PermissionError as exc:
        if exc.errno != errno.EPERM:
            raise
        try:
            unprotect(tree)
        except PermissionError as denied:
            told = "its files are protected; delete it with CAP_LINUX_IMMUTABLE, or after `chattr -R -i`"
            raise PermissionError(denied.errno, told, str(tree)) from denied
        shutil.rmtree(tree)


def _list_upwards(folder: Path) -> Iterator[Path]:
    """Yield all below a folder, each folder after what it holds, and itself; links are neither followed nor given."""
    for path, folders, names in os.walk(folder, topdown=False, onerror=_raise):
        here = Path(path)
        yield from (here / name for name in names if stat.S_ISREG((here / name).lstat().st_mode))
        yield from (here / name for name in folders if not (here / name).is_symlink())
    yield folder


def _raise(error: OSError) -> None:
    raise error


def _set_immutable(path: Path, *, immutable: bool) -> None:
    opened = os.open(path, _FILE)
    try:
        flags = _read_flags(opened)
        wanted = flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE
        if wanted != flags:
            fcntl.ioctl(opened, _SET_FLAGS, struct.pack("i", wanted))
    finally:
        os.close(opened)


def _read_flags(opened: int) -> int:
    """Return the flags of a file; none where its file system has none."""
    try:
        answer = fcntl.ioctl(opened, _GET_FLAGS, struct.pack("i", 0))
    except OSError as exc:
        if exc.errno not in _NO_SUCH_THING:
            raise
        return 0
    flags: int = struct.unpack("i", answer)[0]
    return flags


def _explain(cache: Path, exc: OSError) -> Protection:
    if exc.errno in _DENIED:
        return Protection(
            ProtectionState.NOT_PERMITTED, "this process may not; run it as root with the capability LINUX_IMMUTABLE"
        )
    if exc.errno in _NO_SUCH_THING:
        return Protection(
            ProtectionState.NOT_SUPPORTED, f"the file system of {cache} cannot; take ext4, XFS or Btrfs for it"
        )
    return Protection(ProtectionState.FAILED, str(exc))
