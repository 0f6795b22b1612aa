"""Enforcement of shares by NVIDIA's Multi-Process Service (MPS), which limits the programs in containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.sysfs import follow_links, read_bounded, read_integer, read_text

MPS_PIPE_DIRECTORY: Final = "/tmp/nvidia-mps"  # noqa: S108 - the default of the daemon
# The kernel truncates a process name to 15 characters.
MPS_COMMAND: Final = "nvidia-cuda-mps-control"[:15]
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 - the path that clients use
_MIB: Final = 2**20
# The size is limited because any process may have the daemon's name and very large environment variables.
_ENVIRONMENT_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True)
class MpsFolders:
    """The folders on the host that an MPS control daemon and its clients share.

    Attributes:
        pipes: the daemon's CUDA_MPS_PIPE_DIRECTORY.
        shared_memory: the folder that the daemon uses as /dev/shm, which is not the host's /dev/shm.
    """

    pipes: str = MPS_PIPE_DIRECTORY
    shared_memory: str = f"{MPS_PIPE_DIRECTORY}/shm"


DEFAULT_MPS: Final = MpsFolders()


def find_enforcement(
    root: Path, found: FoundCard, *, folders: MpsFolders, list_daemons: Callable[[], Mapping[int, str | None]]
) -> Literal["mps"] | None:
    """Return `mps` if an MPS control daemon is running for the card, so that limits can be set; otherwise, return None.

    The memory limits of NVIDIA's driver and the dmem controller are ignored, because they apply to containers and pods,
    not to cards.

    Args:
        root: the host's root folder.
        found: the card.
        folders: the folders of the daemon.
        list_daemons: returns the daemons that `read_mps_daemons` found.
    """
    if "mps" not in found.profile.enforcement or found.uuid is None:
        return None
    pipes, shared_memory = (root / path.removeprefix("/") for path in (folders.pipes, folders.shared_memory))
    pid = read_integer(pipes / "nvidia-cuda-mps-control.pid")
    # The file still exists after the daemon was killed, and another process may have the same process ID.
    if pid is None or not (pipes / "control").exists() or read_text(root / f"proc/{pid}/comm") != MPS_COMMAND:
        return None
    daemons = list_daemons()
    serves = pid in daemons and _serves(daemons[pid], found.uuid)
    return "mps" if serves and shared_memory.is_dir() and not is_replaced(root, folders) else None


def is_replaced(root: Path, folders: MpsFolders) -> bool:
    """Return whether the folder of shared memory is a symbolic link that a client created, or is below such a link.

    Clients can write to the folder of pipes. A container runtime would mount the target of the link into the next
    client.
    """
    shared = PurePosixPath(folders.shared_memory)
    if not shared.is_relative_to(folders.pipes):
        return False
    pipes = follow_links(root, folders.pipes)
    return pipes is None or follow_links(root, folders.shared_memory) != pipes / shared.relative_to(folders.pipes)


def read_mps_daemons(root: Path, pids: Sequence[int]) -> Mapping[int, str | None]:
    """Return the MPS control daemons, each with the cards for which it was started, or None for all cards.

    The caller must have permission to read the environment variables of other processes.

    Args:
        root: the host's root folder.
        pids: the IDs of the processes to read; unreadable processes are omitted.
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
    """Return the variables that make the programs of a container clients of MPS and limit them to their shares.

    The variable with the limits lists exactly the cards that the program can use, by UUID. If it lists another card,
    MPS ignores all limits.

    Args:
        granted: the memory of each card that the container gets, in bytes, by UUID.
        folders: the folders of the daemon.
    """
    # MPS accepts limits in whole MiB. A value of 0 disables the limit, and programs need at least 1 MiB.
    limits = (f"{uuid}={max(1, amount // _MIB)}M" for uuid, amount in sorted(granted.items()))
    return {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(limits), "CUDA_MPS_PIPE_DIRECTORY": folders.pipes}


def list_mps_mounts(folders: MpsFolders) -> Mapping[str, str]:
    """Return the host folders that MPS clients require (pipes and shared memory), keyed by path in the container."""
    return {folders.pipes: folders.pipes, _SHARED_MEMORY: folders.shared_memory}


def _serves(visible: str | None, uuid: str) -> bool:
    """Return whether a daemon serves a card, given the daemon's CUDA_VISIBLE_DEVICES; None means all cards."""
    if visible is None:
        return True
    # CUDA also accepts the beginning of a UUID. A number does not identify a card, because CUDA may use a different
    # order.
    return any(name.startswith("GPU-") and uuid.startswith(name) for name in visible.split(","))
