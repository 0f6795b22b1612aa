"""Enforcement of pods' shares by the kernel's dmem controller."""

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
    """Limit a pod to its shares through the dmem controller.

    The limit is set on the pod's cgroup and is removed together with the cgroup. The limit is set only if the
    controller is already enabled for that cgroup, and nothing else on the host is changed. Memory that the pod already
    uses is not reclaimed.

    Args:
        root: the host's root folder.
        pod_uid: the UID of the pod; for a static pod, the UID that its kubelet generated.
        granted: the number of bytes that the pod may use, by PCI address.

    Returns:
        Whether the kernel applies all of the limits, which is verified by reading the limits. If it does not, the pod's
        shares are advisory.
    """
    try:
        folder = find_pod_cgroup(root, pod_uid)
        if folder is None or not granted:
            return False
        return all(_write_limit(root, folder / "dmem.max", bdf, amount) for bdf, amount in sorted(granted.items()))
    except (OSError, UnicodeDecodeError) as exc:
        log.debug("cannot limit the memory of pod %s: %s", pod_uid, exc)
        return False


def _find_region(root: Path, bdf: str) -> str | None:
    """Return the name of a card's only memory region; None if it does not have exactly one.

    The dmem controller limits several regions separately.
    """
    names = read_key_values(root / CGROUPS / "dmem.capacity", None)
    own = [name for name in names if (match := _REGION.fullmatch(name)) and match[1] == bdf]
    return own[0] if len(own) == 1 else None


def _write_limit(root: Path, file: Path, bdf: str, amount: int) -> bool:
    region = _find_region(root, bdf)
    if region is None or not file.exists():
        return False
    # The kernel accepts only one region per write.
    file.write_text(f"{region} {amount}\n")
    held = read_key_values(file, None).get(region, "")
    return held.isdecimal() and int(held) <= amount
