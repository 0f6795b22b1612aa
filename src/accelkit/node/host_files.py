"""The command `accelkit host-files`: copies the few files that a node agent reads of folders it must not see.

An agent must not see all of `/etc`, which holds the cluster's and the host's secrets, nor cgroups, which root may
write; and a file or folder that may be missing cannot be mounted without being made. So a container of its own, without
a token and not as root, sees these folders and copies the files, again and again, into folders that the agent sees in
their place. It can read what everybody may read.
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
# Says that all files there are have been copied once.
_MARKER: Final = Path(_ETC, ".copied")
_MOST_BYTES: Final = 2**20
_AGAIN_SECONDS: Final = 5.0
_WAIT_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


@cache
def list_host_files() -> tuple[str, ...]:
    """Return the files that discovery reads of `/etc` and of cgroups, relative to a host's root."""
    files = {"etc/machine-id", "etc/os-release", OVERRIDES_FILE}
    for profile in load_usable_profiles().profiles.values():
        files |= {profile.nodes_file} if profile.nodes_file else set()
        files |= {profile.discovery.path} if isinstance(profile.discovery, FileDiscovery) else set()
    return *sorted(file for file in files if file.startswith(f"{_ETC}/")), DMEM_CAPACITY


def copy_host_files(root: Path, target: Path, errors: ErrorReporter) -> None:
    """Copy the files below a host's root to a folder that stands for this root, each whole or not at all.

    A file that is not there, or is none that may be copied, is removed from the folder.

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
                f"/{path} cannot be read by everybody, as by this container: `chmod a+r /{path}` on the node"
            )
            continue
        except OSError as exc:
            # Not readable is not absent: what was copied stays.
            problems.append(f"/{path} cannot be read: {exc.strerror}")
            continue
        try:
            _write(copy, content)
        except OSError as exc:
            raise ConfigurationError(
                f"{copy} cannot be written: {exc.strerror}", next_step="check the emptyDir volumes of the pod"
            ) from exc
    if problems:
        errors.report("; ".join(problems), f"not copied: {'; '.join(problems)}")
    else:
        errors.clear()
    marker = target / _MARKER
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()


async def wait_for_host_files(root: Path, *, seconds: float = _WAIT_SECONDS) -> None:
    """Wait until the files of `/etc` have been copied below this root; go on without them after a while."""
    deadline = time.monotonic() + seconds
    while not (root / _MARKER).exists():
        if time.monotonic() > deadline:
            log.warning(
                "the container host-files has copied nothing of the host's /etc within %.0f s; going on without: cards "
                "of which no driver knows a number may change their ids when it does",
                seconds,
            )
            return
        await asyncio.sleep(_POLL_SECONDS)


@click.command("host-files", short_help="Copy what the node agent reads of /etc and cgroups.")
@host_root_option
@click.option(
    "--to", "target", required=True, type=click.Path(path_type=Path), help="Folder that stands for the host's root."
)
def host_files(host_root: Path, target: Path) -> None:
    """Copy what the node agent reads of the host's /etc and cgroups, again and again until SIGTERM."""
    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    log.info("copying %s", ", ".join(f"/{path}" for path in list_host_files()))
    errors = ErrorReporter(log)
    while True:
        copy_host_files(host_root, target, errors)
        if signal.sigtimedwait(ends, _AGAIN_SECONDS) is not None:
            return


def _read(root: Path, path: str) -> bytes | None:
    """Return a file's content; None where there is no such file.

    Raises:
        DevicePluginError: it is none that may be copied.
    """
    # Files of cgroups are no links, and none leads to them.
    place = follow_links(root, path) if path.startswith(f"{_ETC}/") else PurePosixPath(path)
    if place is None or place.parts[:1] != PurePosixPath(path).parts[:1]:
        if path == "etc/os-release":
            # Most hosts have it in /usr, where the agent finds it too.
            return None
        raise DevicePluginError(f"/{path} leads out of /etc")
    try:
        if not stat.S_ISREG((root / place).lstat().st_mode):
            raise DevicePluginError(f"/{path} is no file")
        with (root / place).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) > _MOST_BYTES:
        raise DevicePluginError(f"/{path} has more than {_MOST_BYTES} bytes")
    return content


def _write(copy: Path, content: bytes | None) -> None:
    if content is None:
        copy.unlink(missing_ok=True)
        return
    if copy.is_file() and copy.read_bytes() == content:
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    # Renamed into place, because the agent may read it at any time.
    temporary = copy.with_name(f".{copy.name}.new")
    temporary.write_bytes(content)
    temporary.replace(copy)
