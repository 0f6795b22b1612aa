"""Enforcement of a share's memory on this host: by NVIDIA's MPS, by the kernel's dmem controller, or not at all.

A share is enforced only where something other than its program refuses memory beyond it; anything else is advisory, and
what cannot be known is advisory too. Paths lie below a root that may be moved.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.sysfs import read_integer, read_key_values, read_text

log = logging.getLogger(__name__)

MPS_PIPE_DIRECTORY: Final = "/tmp/nvidia-mps"  # noqa: S108 - where the daemon itself puts it
_MPS_CONTROL: Final = "nvidia-cuda-mps-control"
# The kernel keeps 15 characters of a name.
_MPS_COMMAND: Final = _MPS_CONTROL[:15]
_MIB: Final = 2**20

_CGROUPS: Final = Path("sys/fs/cgroup")
_REGION: Final = re.compile(r"drm/([0-9a-f:.]+)/vram[0-9]*")
_POD_UID: Final = re.compile(r"[0-9a-f-]{32,36}")


def find_enforcement(
    root: Path, found: FoundCard, *, pipe_directory: str = MPS_PIPE_DIRECTORY
) -> Literal["mps"] | None:
    """Return `mps` where an MPS control daemon runs for the card, so that its limits can be set; else None.

    dmem is not told here: whether a pod is held to its share is what `limit_pod` returns.

    Args:
        root: the host's root folder.
        found: the card.
        pipe_directory: the daemon's, which is its CUDA_MPS_PIPE_DIRECTORY.
    """
    if "mps" not in found.profile.enforcement:
        return None
    pipes = root / pipe_directory.removeprefix("/")
    pid = read_integer(pipes / f"{_MPS_CONTROL}.pid")
    # The file stays when the daemon is killed, and its number may be another process's by now.
    if pid is None or not (pipes / "control").exists() or read_text(root / f"proc/{pid}/comm") != _MPS_COMMAND:
        return None
    return "mps" if _serves(root / f"proc/{pid}/environ", found.uuid) else None


def build_mps_environment(granted: Mapping[str, int], *, pipe_directory: str = MPS_PIPE_DIRECTORY) -> Mapping[str, str]:
    """Return what makes the programs of a container clients of MPS that are held to what they were given.

    Limits go by the number that a card has for the program, so cards are numbered by PCI address.

    Args:
        granted: bytes by PCI address, of all cards that the container gets.
        pipe_directory: the daemon's.
    """
    by_address = [granted[bdf] for bdf in sorted(granted, key=lambda bdf: (len(bdf), bdf))]
    # MPS takes whole MiB. None at all would not be a limit, and no program can do with less than one.
    limits = (f"{ordinal}={max(1, amount // _MIB)}M" for ordinal, amount in enumerate(by_address))
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ",".join(limits),
        "CUDA_MPS_PIPE_DIRECTORY": pipe_directory,
    }


def list_mps_mounts(pipe_directory: str = MPS_PIPE_DIRECTORY) -> Sequence[str]:
    """Return the host's folders that clients of MPS need at the same path: pipes, and memory shared with the server."""
    return (pipe_directory, "/dev/shm")  # noqa: S108 - the path is MPS's


def limit_pod(root: Path, pod_uid: str, granted: Mapping[str, int]) -> bool:
    """Hold a pod to its shares by dmem.

    The limit is one of the pod's cgroup, and goes with it. It is set only where the controller is already on for that
    cgroup; nothing else of the host is changed. What the pod held before stays with it.

    Args:
        root: the host's root folder.
        pod_uid: the pod's UID, of a static pod the one that its kubelet made up.
        granted: bytes by PCI address.

    Returns:
        Whether the kernel has all of the limits, as read back; else the pod's shares are advisory.
    """
    try:
        folder = _find_pod_cgroup(root, pod_uid)
        if folder is None or not granted:
            return False
        return all(_write_limit(root, folder / "dmem.max", bdf, amount) for bdf, amount in sorted(granted.items()))
    except (OSError, UnicodeDecodeError) as exc:
        log.debug("pod %s cannot be held to its memory: %s", pod_uid, exc)
        return False


def _serves(environ: Path, uuid: str | None) -> bool:
    """Return whether the daemon serves a card: all, or those in its environment, which is as it was started with."""
    try:
        variables = environ.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    shown = dict(variable.split("=", 1) for variable in variables if "=" in variable).get("CUDA_VISIBLE_DEVICES")
    if shown is None:
        return True
    # The beginning of a UUID is enough for CUDA. Numbers may be in CUDA's own order: whose they are cannot be known.
    return uuid is not None and any(name.startswith("GPU-") and uuid.startswith(name) for name in shown.split(","))


def _find_region(root: Path, bdf: str) -> str | None:
    """Return the name of a card's one region; None where it has none, or several, over which one sum cannot be held."""
    names = read_key_values(root / _CGROUPS / "dmem.capacity", None)
    own = [name for name in names if (match := _REGION.fullmatch(name)) and match[1] == bdf]
    return own[0] if len(own) == 1 else None


def _write_limit(root: Path, file: Path, bdf: str, amount: int) -> bool:
    region = _find_region(root, bdf)
    if region is None or not file.exists():
        return False
    # The kernel takes one region at a time.
    file.write_text(f"{region} {amount}\n")
    held = read_key_values(file, None).get(region, "")
    return held.isdecimal() and int(held) <= amount


def _find_pod_cgroup(root: Path, pod_uid: str) -> Path | None:
    """Return the pod's cgroup as the cgroupfs or the systemd driver names it; a kubelet may have a root of its own."""
    if not _POD_UID.fullmatch(pod_uid):
        return None
    names = (f"pod{pod_uid}", f"*-pod{pod_uid.replace('-', '_')}.slice")
    patterns = (f"{above}*kubepods*/{qos}{name}" for above in ("", "*/") for qos in ("", "*/") for name in names)
    found = (folder for pattern in patterns for folder in sorted((root / _CGROUPS).glob(pattern)))
    return next(found, None)
