"""Search for the version 2 cgroups of pods and containers, by the names that kubelets and container runtimes use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

CGROUPS: Final = Path("sys/fs/cgroup")
_POD_UID: Final = re.compile(r"[0-9a-f-]{32,36}")
_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{32,128}")


def find_pod_cgroup(root: Path, pod_uid: str) -> Path | None:
    """Return the pod's cgroup, as named by the cgroupfs or systemd driver, below any cgroup root of the kubelet.

    Args:
        root: the host's root folder.
        pod_uid: the UID of the pod; for a static pod, the UID that its kubelet generated.
    """
    if not _POD_UID.fullmatch(pod_uid):
        return None
    names = (f"pod{pod_uid}", f"*-pod{pod_uid.replace('-', '_')}.slice")
    patterns = (f"{above}*kubepods*/{qos}{name}" for above in ("", "*/") for qos in ("", "*/") for name in names)
    found = (folder for pattern in patterns for folder in sorted((root / CGROUPS).glob(pattern)))
    return next(found, None)


def find_container_cgroup(root: Path, pod_uid: str, container_id: str) -> Path | None:
    """Return the leaf cgroup of a container's processes; None if it does not exist or is not visible.

    Depending on the cgroup driver, containerd names the cgroup `<id>` or `cri-containerd-<id>.scope`, and CRI-O names
    it `crio-<id>` or `crio-<id>.scope`. If the runtime is crun, it creates another cgroup for the container below that
    cgroup.

    Args:
        root: the host's root folder.
        pod_uid: the UID of the pod, as for `find_pod_cgroup`.
        container_id: the ID in the pod's status, for example `containerd://<id>`.
    """
    own_id = container_id.rpartition("//")[2]
    pod = find_pod_cgroup(root, pod_uid)
    if pod is None or not _CONTAINER_ID.fullmatch(own_id):
        return None
    # The pattern excludes the cgroup of CRI-O's container monitor, whose name also contains the ID.
    named = re.compile(rf"(?:(?:cri-containerd|crio|docker|libpod)-)?{own_id}(?:\.scope)?")
    found = next((folder for folder in sorted(pod.iterdir()) if named.fullmatch(folder.name)), None)
    return None if found is None else _descend(found)


def _descend(folder: Path) -> Path:
    """Return the first cgroup, starting at this folder, that has processes or does not have exactly one child."""
    while not (folder / "cgroup.procs").read_text().strip():
        below = [each for each in folder.iterdir() if each.is_dir()]
        if len(below) != 1:
            break
        folder = below[0]
    return folder
