"""Finds the cgroups (version 2) of pods and of their containers, as kubelets and container runtimes name them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("sys/fs/cgroup")
_POD_UID: Final = re.compile(r"[0-9a-f-]{32,36}")
_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{32,128}")


def find_pod_cgroup(root: Path, pod_uid: str) -> Path | None:
    """Return the pod's cgroup as the cgroupfs or the systemd driver names it; a kubelet may have a root of its own.

    Args:
        root: the host's root folder.
        pod_uid: the pod's UID, of a static pod the one that its kubelet made up.
    """
    if not _POD_UID.fullmatch(pod_uid):
        return None
    names = (f"pod{pod_uid}", f"*-pod{pod_uid.replace('-', '_')}.slice")
    patterns = (f"{above}*kubepods*/{qos}{name}" for above in ("", "*/") for qos in ("", "*/") for name in names)
    found = (folder for pattern in patterns for folder in sorted((root / CGROUPS).glob(pattern)))
    return next(found, None)


def find_container_cgroup(root: Path, pod_uid: str, container_id: str) -> Path | None:
    """Return the leaf cgroup that a container's processes run in; None where it is not there, or not seen.

    Containerd names it `<id>` or `cri-containerd-<id>.scope`, CRI-O `crio-<id>` or `crio-<id>.scope`, by the cgroup
    driver. Below that, crun makes one of its own for the container.

    Args:
        root: the host's root folder.
        pod_uid: as for the pod's cgroup.
        container_id: from the pod's status, as `containerd://<id>`.
    """
    own_id = container_id.rpartition("//")[2]
    pod = find_pod_cgroup(root, pod_uid)
    if pod is None or not _CONTAINER_ID.fullmatch(own_id):
        return None
    # CRI-O's monitor of the container has a cgroup beside it, which has the id in its name as well.
    named = re.compile(rf"(?:(?:cri-containerd|crio|docker|libpod)-)?{own_id}(?:\.scope)?")
    found = next((folder for folder in sorted(pod.iterdir()) if named.fullmatch(folder.name)), None)
    return None if found is None else _descend(found)


def _descend(folder: Path) -> Path:
    """Go down for as long as a cgroup has no process of its own and one other below it."""
    while not (folder / "cgroup.procs").read_text().strip():
        below = [each for each in folder.iterdir() if each.is_dir()]
        if len(below) != 1:
            break
        folder = below[0]
    return folder
