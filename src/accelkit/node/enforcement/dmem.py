"""Holds pods to their shares by the kernel's dmem controller."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from accelkit.node.discovery.sysfs import read_key_values
from accelkit.node.enforcement.cgroups import CGROUPS, find_pod_cgroup

log = logging.getLogger(__name__)

_REGION: Final = re.compile(r"drm/([0-9a-f:.]+)/vram[0-9]*")


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
        folder = find_pod_cgroup(root, pod_uid)
        if folder is None or not granted:
            return False
        return all(_write_limit(root, folder / "dmem.max", bdf, amount) for bdf, amount in sorted(granted.items()))
    except (OSError, UnicodeDecodeError) as exc:
        log.debug("pod %s cannot be held to its memory: %s", pod_uid, exc)
        return False


def _find_region(root: Path, bdf: str) -> str | None:
    """Return the name of a card's one region; None where it has none, or several, over which one sum cannot be held."""
    names = read_key_values(root / CGROUPS / "dmem.capacity", None)
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
