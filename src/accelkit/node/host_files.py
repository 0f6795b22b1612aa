"""The command `accelkit host-files`, which copies files for a node agent from folders that the agent must not mount.

An agent must not mount the entire `/etc` folder, which contains secrets of the cluster and the host. It must not mount
cgroups either, because root can write to them. A file or folder that may be missing cannot be mounted individually,
because the mount would create it. Therefore, a separate container without a token and without root privileges mounts
these folders. It repeatedly copies the files into folders that the agent mounts instead. It can read only files that
all users can read.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import stat
import time
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

import click

from accelkit.errors import ConfigurationError, DevicePluginError
from accelkit.logs import ErrorReporter
from accelkit.node.discovery.files.overrides import OVERRIDES_FILE
from accelkit.node.discovery.host import DMEM_CAPACITY
from accelkit.node.discovery.sysfs import follow_links
from accelkit.node.host_root import host_root_option
from accelkit.vendors.profiles import FileDiscovery, load_usable_profiles

log = logging.getLogger(__name__)

_ETC: Final = "etc"
# This file exists if all files of the host have been copied at least once.
_MARKER: Final = Path(_ETC, ".copied")
_MOST_BYTES: Final = 2**20
_AGAIN_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


@cache
def list_host_files() -> tuple[str, ...]:
    """Return the paths of the files that discovery reads from `/etc` and cgroups, relative to the host's root."""
    files = {"etc/machine-id", "etc/os-release", OVERRIDES_FILE}
    for profile in load_usable_profiles().profiles.values():
        files |= {profile.nodes_file} if profile.nodes_file else set()
        files |= {profile.discovery.path} if isinstance(profile.discovery, FileDiscovery) else set()
    return *sorted(file for file in files if file.startswith(f"{_ETC}/")), DMEM_CAPACITY


def copy_host_files(root: Path, target: Path, errors: ErrorReporter) -> None:
    """Copy the files below a host's root to a folder that replaces this root. Each copy is replaced atomically.

    If a file is missing or must not be copied, its copy is deleted from the folder.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    problems = []
    for path in list_host_files():
        copy = target / path
        try:
            content = _read(root, path)
        except DevicePluginError as exc:
            problems.append(str(exc))
            content = None
        except PermissionError:
            problems.append(
                f"cannot read /{path}: not all users have read permission. Run `chmod a+r /{path}` on the node"
            )
            continue
        except OSError as exc:
            # An unreadable file is not a missing file, so its copy is not deleted.
            problems.append(f"cannot read /{path}: {exc.strerror}")
            continue
        try:
            _write(copy, content)
        except OSError as exc:
            raise ConfigurationError(
                f"cannot write {copy}: {exc.strerror}", next_step="check the emptyDir volumes of the pod"
            ) from exc
    if problems:
        errors.report("; ".join(problems), f"cannot copy all files: {'; '.join(problems)}")
    else:
        errors.clear()
    marker = target / _MARKER
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()


async def wait_for_host_files(root: Path, *, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until the files from `/etc` have been copied below this root, for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not (root / _MARKER).exists():
        if time.monotonic() > deadline:
            log.warning(
                "starting without files from the host's /etc: the container host-files did not copy them in %.0f s; "
                "the IDs of cards without a UUID may change when the files are copied",
                seconds,
            )
            return
        await asyncio.sleep(_POLL_SECONDS)


@click.command("host-files", short_help="Copy the files that the node agent reads from /etc and cgroups.")
@host_root_option
@click.option(
    "--to", "target", required=True, type=click.Path(path_type=Path), help="Folder that replaces the host's root."
)
def host_files(host_root: Path, target: Path) -> None:
    """Repeatedly copy the files that the node agent reads from the host's /etc and cgroups, until SIGTERM."""
    stop_signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop_signals)
    log.info("copying files=%s", ", ".join(f"/{path}" for path in list_host_files()))
    errors = ErrorReporter(log)
    while True:
        copy_host_files(host_root, target, errors)
        if signal.sigtimedwait(stop_signals, _AGAIN_SECONDS) is not None:
            return


def _read(root: Path, path: str) -> bytes | None:
    """Return the content of a file; None if it does not exist.

    Raises:
        DevicePluginError: the file must not be copied.
    """
    # Files in cgroups are not links, and links on the paths to these files are not followed.
    place = follow_links(root, path) if path.startswith(f"{_ETC}/") else PurePosixPath(path)
    if place is None or place.parts[:1] != PurePosixPath(path).parts[:1]:
        if path == "etc/os-release":
            # On most hosts, the file is a link into /usr, where the agent can read the file itself.
            return None
        raise DevicePluginError(f"/{path} is a symbolic link to a file outside /etc")
    try:
        if not stat.S_ISREG((root / place).lstat().st_mode):
            raise DevicePluginError(f"/{path} is not a regular file")
        with (root / place).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) > _MOST_BYTES:
        raise DevicePluginError(f"/{path} is larger than {_MOST_BYTES} bytes")
    return content


def _write(copy: Path, content: bytes | None) -> None:
    if content is None:
        copy.unlink(missing_ok=True)
        return
    if copy.is_file() and copy.read_bytes() == content:
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    # Rename the file into place, because the agent may read it at any time.
    temporary = copy.with_name(f".{copy.name}.new")
    temporary.write_bytes(content)
    temporary.replace(copy)
