"""Access to the files of one host, through a few operations that each type of connection implements.

Writes are atomic. The new content is written to a temporary file in the same folder. This file gets the mode and owner,
is synced to disk, and is then renamed. The name of the temporary file begins with a dot, because the kubelet ignores
such names.
"""

from __future__ import annotations

import errno
import http.client
import os
import secrets
import ssl
import stat as modes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from accelkit.errors import ConfigurationError

# Name prefix of unfinished files. The next run deletes the unfinished files of a killed run.
UNFINISHED_PREFIX: Final = ".accelkit-"
RUN_SECONDS: Final = 60
ANSWER_SECONDS: Final = 5


@dataclass(frozen=True)
class FileStatus:
    """Status of the file at a path; `mode` has four octal digits."""

    kind: Literal["file", "folder", "link", "other"]
    mode: str
    uid: int
    gid: int


class Host(Protocol):
    """A host. Paths are absolute paths on the host itself.

    Each operation raises ConfigurationError with the host's error message if the operation fails on the host.
    """

    def read_status(self, path: str) -> FileStatus | None:
        """Return the status of a path without following symbolic links; None if the path does not exist."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; None if the file does not exist."""

    def write(self, path: str, content: bytes, *, mode: str, uid: int, gid: int) -> None:
        """Replace or create a file durably and atomically."""

    def make_folder(self, path: str, *, mode: str) -> None:
        """Create a folder; its parent must exist."""

    def remove(self, path: str) -> None:
        """Delete a file if it exists."""

    def remove_empty_folder(self, path: str) -> None:
        """Delete a folder if it exists and is empty."""

    def list_names(self, folder: str) -> list[str]:
        """Return the sorted names in a folder; empty if the folder does not exist."""

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command; return its exit status and its output. The status is 127 if the command does not exist."""

    def probe_url(self, url: str) -> bool | None:
        """Return whether a GET request from the host returns 200; None if the request cannot be sent."""


class LocalHost:
    """The host whose root folder is mounted at `root`, as in a pod with a hostPath volume, or this machine."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def read_status(self, path: str) -> FileStatus | None:
        """Return the status of a path; see Host."""
        try:
            found = self._at(path).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise _refused("read the status of", path, exc) from exc
        kind: Literal["file", "folder", "link", "other"] = "other"
        if modes.S_ISREG(found.st_mode):
            kind = "file"
        elif modes.S_ISDIR(found.st_mode):
            kind = "folder"
        elif modes.S_ISLNK(found.st_mode):
            kind = "link"
        return FileStatus(kind, f"{modes.S_IMODE(found.st_mode):04o}", found.st_uid, found.st_gid)

    def read(self, path: str) -> bytes | None:
        """Return the content of a file; see Host."""
        try:
            return self._inside(self._at(path).resolve(), path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as exc:
            raise _refused("read", path, exc) from exc

    def write(self, path: str, content: bytes, *, mode: str, uid: int, gid: int) -> None:
        """Replace or create a file; see Host."""
        place = self._at(path)
        # The name is random, so that two writers never write to the same file.
        unfinished = place.with_name(f"{UNFINISHED_PREFIX}{place.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                written = 0
                while written < len(content):
                    written += os.write(descriptor, content[written:])
                if (uid, gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, uid, gid)
                os.fchmod(descriptor, int(mode, 8))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(unfinished, place)  # noqa: PTH104 - one system call, as the tests that cut it off count them
            self._sync(place.parent)
        except OSError as exc:
            _try_unlink(unfinished)
            raise _refused("write", path, exc) from exc

    def make_folder(self, path: str, *, mode: str) -> None:
        """Create one folder; see Host."""
        try:
            place = self._at(path)
            place.mkdir(exist_ok=True)
            place.chmod(int(mode, 8))
            self._sync(place.parent)
        except OSError as exc:
            raise _refused("create", path, exc) from exc

    def remove(self, path: str) -> None:
        """Delete a file; see Host."""
        try:
            self._at(path).unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as exc:
            raise _refused("delete", path, exc) from exc

    def remove_empty_folder(self, path: str) -> None:
        """Delete a folder if it is empty; see Host."""
        if self.read_status(path) is None or self.list_names(path):
            return
        try:
            self._at(path).rmdir()
        except OSError as exc:
            if exc.errno == errno.EBUSY:
                # A pod cannot delete a folder that is mounted in the pod.
                return
            raise _refused("delete", path, exc) from exc

    def list_names(self, folder: str) -> list[str]:
        """Return the names in a folder; see Host."""
        try:
            return sorted(each.name for each in self._at(folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as exc:
            raise _refused("list", folder, exc) from exc

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command on this machine, even if `root` is another folder; see Host."""
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=RUN_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            return 127, str(exc)
        return done.returncode, done.stdout.decode(errors="replace")

    def probe_url(self, url: str) -> bool | None:
        """Return whether a GET request returns 200; see Host."""
        parts = urlsplit(url)
        # Without a configured certificate, kube-scheduler creates a self-signed certificate, which cannot be verified.
        context = ssl._create_unverified_context()  # noqa: S323, SLF001 - the standard library's own name for it
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=ANSWER_SECONDS, context=context
        )
        try:
            connection.request("GET", parts.path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _at(self, path: str) -> Path:
        place = self._root / PurePosixPath(path).relative_to("/")
        if place == self._root:
            return place
        self._inside(place.parent.resolve(), path)
        return place

    def _inside(self, place: Path, path: str) -> Path:
        # The target of an absolute link on the host would be outside the mounted root.
        if not place.is_relative_to(self._root.resolve()):
            raise ConfigurationError(
                f"cannot use {path}: a symbolic link points outside of {self._root}",
                next_step="specify the target of the link",
            )
        return place

    def _sync(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folders(host: Host, path: str, *, mode: str) -> None:
    """Create a folder and its missing parents."""
    for folder in list_missing_folders(host, path):
        host.make_folder(folder, mode=mode)


def list_missing_folders(host: Host, path: str) -> list[str]:
    """Return the folders that are missing among a folder and its parents, the outermost first."""
    place = PurePosixPath(path)
    missing: list[str] = []
    for folder in (place, *place.parents):
        if host.read_status(str(folder)) is not None:
            break
        missing.insert(0, str(folder))
    return missing


def sweep(host: Host, folder: str) -> None:
    """Delete the unfinished files of a killed run in a folder."""
    for name in host.list_names(folder):
        if name.startswith(UNFINISHED_PREFIX):
            host.remove(str(PurePosixPath(folder, name)))


def _try_unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        # The folder is not writable; the caller will report this error.
        return


def _refused(operation: str, path: str, exc: OSError) -> ConfigurationError:
    return ConfigurationError(f"cannot {operation} {path}: {exc.strerror or exc}")
