"""The run folder of a sandbox, which provides short paths for the UNIX sockets of each node.

The kernel limits the path of a socket to 107 bytes, and paths in a sandbox may be longer. Therefore, a folder with a
short path contains a link for each node. The link points to the node's folder in the sandbox.
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

# The size of sun_path in sockaddr_un, without the final zero byte.
SOCKET_PATH_BYTES: Final = 107

_PREFIX = "accelkit-"
_RANDOM_BYTES = 8  # added by tempfile
_LONGEST_SOCKET = "9999/run/123456/host/var/lib/kubelet/device-plugins/accelkit-memory.sock"


@contextmanager
def open_run_folder(paths: SandboxPaths, nodes: Sequence[str]) -> Iterator[Path]:
    """Create a run folder with access for only its owner, and remove it on exit.

    Args:
        paths: the prepared sandbox, in which the folders of the nodes are created.
        nodes: the names of the nodes. The position of a name is the index for `build_node_root`.

    Raises:
        SandboxError: no folder for temporary files can be used.
    """
    # Do not use XDG_RUNTIME_DIR. Its content is deleted when the user logs out, but the sandbox continues to run.
    for base in (Path(tempfile.gettempdir()), Path("/tmp"), paths.root):  # noqa: S108 - checked, and of a random name
        if _is_short(base) and _is_safe(base):
            break
    else:
        raise SandboxError(
            f"cannot create UNIX sockets in {tempfile.gettempdir()}, /tmp or {paths.root}: the path is too long, or"
            " other users can replace files in the folder",
            next_step="set TMPDIR to a folder with a short path that only you can write to",
        )
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    except OSError as exc:
        raise SandboxError(
            f"cannot create a folder in {base}: {exc.strerror}", next_step="set TMPDIR to another folder"
        ) from exc
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Lock the folder, because systemd-tmpfiles deletes old files except in locked folders.
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
    """Return the short path of a node's root folder. The `index` of the first node in the sandbox is 0."""
    # The path contains the index of the node instead of its name, because a name may have 63 bytes.
    return folder / str(index)


def remove_run_folder(folder: Path) -> None:
    """Remove a run folder, even if its supervisor was killed. Do nothing if it does not exist or has another owner."""
    # Ignore errors, because remaining links are harmless and must not prevent the deletion of a sandbox.
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
    """Return whether no other user can replace files of this user in the folder."""
    try:
        found = base.stat()
    except OSError:
        return False
    owned = found.st_uid == os.geteuid()
    if found.st_mode & stat.S_ISVTX:
        return owned or found.st_uid == 0
    return owned and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
