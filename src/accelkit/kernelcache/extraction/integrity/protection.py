"""Protection of an extracted cache against writes, based on the immutable flag of the file system.

The flag is FS_IMMUTABLE_FL, which `chattr +i` sets. A process needs CAP_LINUX_IMMUTABLE to set or clear it. Containers
do not have this capability by default. If a pod mounts a cache with this flag as writable, even root in the pod cannot
write to it. Setting the flag does not change file times.

The flag is set on the files first and on the cache's folder last, and cleared in the opposite order. Therefore, all
entries below a folder with the flag also have the flag, even if a process was killed in between.
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

# From linux/fs.h, which declares the argument as `long`; the kernel uses an `int`.
_GET_FLAGS: Final = 0x80086601 if struct.calcsize("l") == 8 else 0x80046601  # noqa: PLR2004 - bytes of a long
_SET_FLAGS: Final = 0x40086602 if struct.calcsize("l") == 8 else 0x40046602  # noqa: PLR2004 - the same
_IMMUTABLE: Final = 0x10
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_FOLDER: Final = _FILE | os.O_DIRECTORY
_PROBE: Final = ".protection"
_UNSUPPORTED: Final = {errno.ENOTTY, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
_DENIED: Final = {errno.EPERM, errno.EACCES}


class ProtectionState(StrEnum):
    """Whether a cache is protected, or why it is not.

    NOT_PERMITTED: this process lacks CAP_LINUX_IMMUTABLE. NOT_SUPPORTED: the file system does not support the flag.
    FAILED: the operation failed with another disk error.
    """

    PROTECTED = "protected"
    NOT_PERMITTED = "not-permitted"
    NOT_SUPPORTED = "not-supported"
    FAILED = "failed"


@dataclass(frozen=True)
class Protection:
    """The result of protecting a cache. If protection failed, `message` explains the cause and the next step."""

    state: ProtectionState
    message: str = ""


def protect(cache: Path) -> Protection:
    """Protect a cache folder and all entries below it against writes. After a failure, no entry remains protected."""
    begun = False
    try:
        for path in _list_upwards(cache):
            _set_immutable(path, immutable=True)
            begun = True
    except OSError as exc:
        outcome = _explain(cache, exc)
        try:
            if begun:
                unprotect(cache)
        except OSError as failed:
            message = f"{outcome.message}; cannot unprotect the protected files: {failed}"
            return Protection(ProtectionState.FAILED, message)
        return outcome
    return Protection(ProtectionState.PROTECTED)


def unprotect(tree: Path) -> None:
    """Remove the protection of a folder and all entries below it.

    Raises:
        OSError: the flag cannot be cleared, usually because the process lacks CAP_LINUX_IMMUTABLE.
    """
    for path in reversed(list(_list_upwards(tree))):
        _set_immutable(path, immutable=False)


def probe(folder: Path) -> Protection:
    """Use a temporary file to test whether files in a folder can be protected, and return the result."""
    path = folder / _PROBE
    try:
        if path.exists():
            # The file remains from a killed process.
            _set_immutable(path, immutable=False)
        os.close(os.open(path, _FILE | os.O_CREAT, 0o600))
        _set_immutable(path, immutable=True)
        _set_immutable(path, immutable=False)
        path.unlink()
    except OSError as exc:
        return _explain(folder, exc)
    return Protection(ProtectionState.PROTECTED)


def is_protected(cache: Path) -> bool:
    """Return whether a cache is protected against writes."""
    try:
        opened = os.open(cache, _FOLDER)
    except OSError:
        return False
    try:
        return bool(_read_flags(opened) & _IMMUTABLE)
    finally:
        os.close(opened)


def delete_tree(tree: Path) -> None:
    """Delete a folder and its content, even if they are protected. Also delete an entry of another type at this path.

    Raises:
        OSError: the folder cannot be deleted.
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
            message = "its files are protected; run as root with CAP_LINUX_IMMUTABLE, or `chattr -R -i` first"
            raise PermissionError(denied.errno, message, str(tree)) from denied
        shutil.rmtree(tree)


def _list_upwards(folder: Path) -> Iterator[Path]:
    """Yield a folder and the entries below it, except symbolic links. Each folder follows its entries."""
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
        desired = flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE
        if desired != flags:
            fcntl.ioctl(opened, _SET_FLAGS, struct.pack("i", desired))
    finally:
        os.close(opened)


def _read_flags(opened: int) -> int:
    """Return the flags of a file; 0 if its file system does not support flags."""
    try:
        answer = fcntl.ioctl(opened, _GET_FLAGS, struct.pack("i", 0))
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
        return 0
    flags: int = struct.unpack("i", answer)[0]
    return flags


def _explain(cache: Path, exc: OSError) -> Protection:
    if exc.errno in _DENIED:
        return Protection(
            ProtectionState.NOT_PERMITTED,
            "cannot set the immutable flag: permission denied; run as root with the capability LINUX_IMMUTABLE",
        )
    if exc.errno in _UNSUPPORTED:
        return Protection(
            ProtectionState.NOT_SUPPORTED,
            f"the file system of {cache} does not support the immutable flag; use ext4, XFS or Btrfs",
        )
    return Protection(ProtectionState.FAILED, str(exc))
