"""Holds the programs of containers to their shares by NVIDIA's MPS."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.sysfs import follow_links, read_bounded, read_integer, read_text

MPS_PIPE_DIRECTORY: Final = "/tmp/nvidia-mps"  # noqa: S108 - where the daemon itself puts it
# The kernel keeps 15 characters of a name.
MPS_COMMAND: Final = "nvidia-cuda-mps-control"[:15]
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - where clients look for it
_MIB: Final = 2**20
# Any process may call itself the daemon, and make its environment as long as its memory.
_ENVIRONMENT_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class MpsFolders:
    """Folders of the host that an MPS control daemon and its clients share.

    Attributes:
        pipes: the daemon's CUDA_MPS_PIPE_DIRECTORY.
        shared_memory: what the daemon has as its /dev/shm, which is not the host's.
    """

    pipes: str = MPS_PIPE_DIRECTORY
    shared_memory: str = f"{MPS_PIPE_DIRECTORY}/shm"


DEFAULT_MPS: Final = MpsFolders()


def find_enforcement(
    root: Path, found: FoundCard, *, folders: MpsFolders, list_daemons: Callable[[], Mapping[int, str | None]]
) -> Literal["mps"] | None:
    """Return `mps` where an MPS control daemon runs for the card, so that its limits can be set; else None.

    NVIDIA's memory limits and dmem are not told here: they are of containers and pods.

    Args:
        root: the host's root folder.
        found: the card.
        folders: the daemon's.
        list_daemons: returns what `read_mps_daemons` has seen.
    """
    if "mps" not in found.profile.enforcement or found.uuid is None:
        return None
    pipes, shared_memory = (root / path.removeprefix("/") for path in (folders.pipes, folders.shared_memory))
    pid = read_integer(pipes / "nvidia-cuda-mps-control.pid")
    # The file stays when the daemon is killed, and its number may be another process's by now.
    if pid is None or not (pipes / "control").exists() or read_text(root / f"proc/{pid}/comm") != MPS_COMMAND:
        return None
    daemons = list_daemons()
    serves = pid in daemons and _serves(daemons[pid], found.uuid)
    return "mps" if serves and shared_memory.is_dir() and not is_replaced(root, folders) else None


def is_replaced(root: Path, folders: MpsFolders) -> bool:
    """Return whether the folder of shared memory is a link that a client made, or lies behind one.

    Clients write the folder of pipes; a runtime would mount for the next one whatever such a link leads to.
    """
    shared = PurePosixPath(folders.shared_memory)
    if not shared.is_relative_to(folders.pipes):
        return False
    pipes = follow_links(root, folders.pipes)
    return pipes is None or follow_links(root, folders.shared_memory) != pipes / shared.relative_to(folders.pipes)


def read_mps_daemons(root: Path, pids: Sequence[int]) -> Mapping[int, str | None]:
    """Return the MPS control daemons with the cards each was started for, None for all; needs the right to read others.

    Args:
        root: the host's root folder.
        pids: the processes to look at; those that cannot be read are left out.
    """
    found: dict[int, str | None] = {}
    for pid in pids:
        folder = root / f"proc/{pid}"
        if read_text(folder / "comm") != MPS_COMMAND:
            continue
        environment = read_bounded(folder / "environ", _ENVIRONMENT_BYTES)
        if environment is None:
            continue
        pairs = dict(variable.split("=", 1) for variable in environment.split("\0") if "=" in variable)
        found[pid] = pairs.get("CUDA_VISIBLE_DEVICES")
    return found


def build_mps_environment(granted: Mapping[str, int], folders: MpsFolders) -> Mapping[str, str]:
    """Return what makes the programs of a container clients of MPS that are held to what they were given.

    Limits name the cards that the program sees and no other, by UUID: one that it does not see makes MPS forget all.

    Args:
        granted: bytes by UUID, of all cards that the container gets.
        folders: the daemon's.
    """
    # MPS takes whole MiB. None at all would not be a limit, and no program can do with less than one.
    limits = (f"{uuid}={max(1, amount // _MIB)}M" for uuid, amount in sorted(granted.items()))
    return {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(limits), "CUDA_MPS_PIPE_DIRECTORY": folders.pipes}


def list_mps_mounts(folders: MpsFolders) -> Mapping[str, str]:
    """Return the host's folders that clients of MPS need, by where: pipes, and memory shared with the server."""
    return {folders.pipes: folders.pipes, _SHARED_MEMORY: folders.shared_memory}


def _serves(shown: str | None, uuid: str) -> bool:
    """Return whether a daemon serves a card: all, or those that it was shown."""
    if shown is None:
        return True
    # The beginning of a UUID is enough for CUDA. Numbers may be in CUDA's own order: whose they are cannot be known.
    return any(name.startswith("GPU-") and uuid.startswith(name) for name in shown.split(","))
