"""The run folder of a sandbox: a short way to each of its nodes, for unix sockets.

The kernel takes at most 107 bytes as a socket's address, which a sandbox below a long home folder would pass. So a node
is reached by a link in a folder of a short name; what it holds lies in the sandbox's own folder all the same.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from accelkit.errors import SandboxError
from accelkit.sandbox.layout import SandboxPaths

__all__ = ["SOCKET_PATH_BYTES", "build_node_root", "open_run_folder", "remove_run_folder"]

# sun_path of sockaddr_un, less the closing zero byte.
SOCKET_PATH_BYTES: Final = 107

_PREFIX = "accelkit-"
_RANDOM_BYTES = 8  # that tempfile adds
_LONGEST_SOCKET = "9999/run/123456/host/var/lib/kubelet/device-plugins/accelkit-memory.sock"


@contextmanager
def open_run_folder(paths: SandboxPaths, nodes: Sequence[str]) -> Iterator[Path]:
    """Make a run folder, for its owner alone, and remove it in the end.

    Args:
        paths: the sandbox, which is prepared; the nodes' folders are made there.
        nodes: their names, in the order in which `build_node_root` counts them.

    Raises:
        SandboxError: no folder for temporary files can be used.
    """
    # Not XDG_RUNTIME_DIR, which is emptied when its user logs out; a sandbox stays up.
    for base in (Path(tempfile.gettempdir()), Path("/tmp"), paths.root):  # noqa: S108 - checked, and of a random name
        if _is_short(base) and _is_safe(base):
            break
    else:
        raise SandboxError(
            f"no folder has a short name and is safe from other users: neither {tempfile.gettempdir()} nor /tmp nor"
            f" {paths.root} can hold unix sockets",
            next_step="name one in TMPDIR",
        )
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    except OSError as exc:
        raise SandboxError(
            f"no folder can be made in {base}: {exc.strerror}", next_step="name another one in TMPDIR"
        ) from exc
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # systemd-tmpfiles deletes what is old, except where somebody holds a lock.
        fcntl.flock(lock, fcntl.LOCK_SH)
        for index, name in enumerate(nodes):
            place = paths.nodes / name
            place.mkdir(mode=0o700, exist_ok=True)
            build_node_root(folder, index).symlink_to(place.absolute())
        yield folder
    finally:
        os.close(lock)
        remove_run_folder(folder)


def build_node_root(folder: Path, index: int) -> Path:
    """Return the short path of a node's `/`; `index` counts the sandbox's nodes from 0."""
    # Not by name, which may have 63 bytes.
    return folder / str(index)


def remove_run_folder(folder: Path) -> None:
    """Remove a run folder, also after a supervisor that was killed; one of somebody else, or none, is passed over."""
    # Links that stay do no harm, and must not keep a sandbox from being deleted.
    with suppress(OSError):
        found = folder.lstat()
        if not folder.name.startswith(_PREFIX) or not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return
        for link in folder.iterdir():
            if link.is_symlink():
                link.unlink()
        folder.rmdir()


def _is_short(base: Path) -> bool:
    folder = base / f"{_PREFIX}{'x' * _RANDOM_BYTES}"
    return len(os.fsencode(folder / _LONGEST_SOCKET)) <= SOCKET_PATH_BYTES


def _is_safe(base: Path) -> bool:
    """Whether nobody else can replace what we make there."""
    try:
        found = base.stat()
    except OSError:
        return False
    ours = found.st_uid == os.geteuid()
    if found.st_mode & stat.S_ISVTX:
        return ours or found.st_uid == 0
    return ours and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
