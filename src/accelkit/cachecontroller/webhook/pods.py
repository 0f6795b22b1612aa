"""Parts of a pod that is being created: JSON with known types, before validation by the API server."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final

from accelkit.gkm.names import HOST_FOLDER

Object = dict[str, Any]
# All kinds of containers; ephemeral containers are added later, without this webhook.
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
# The root, folder or open files of a process give access to the whole node.
_PROCESS_ROOT: Final = re.compile(r"/proc/(.*/)?(root|cwd|fd|kernel-caches)(/|$)")


def list_containers(pod: Object) -> list[Object]:
    """Return all containers of a pod, regular ones first."""
    return [each for kind in _CONTAINERS for each in pod["spec"].get(kind) or []]


def list_mounts(pod: Object, volume: str) -> Iterator[tuple[Object, Object]]:
    """Yield the containers that mount a volume, with each mount."""
    for container in list_containers(pod):
        for mount in container.get("volumeMounts") or []:
            if mount.get("name") == volume:
                yield container, mount


def find_volume(pod: Object, name: str) -> Object | None:
    """Return the volume of this name."""
    return next((each for each in pod["spec"].get("volumes") or [] if each.get("name") == name), None)


def get_claim(volume: Object) -> str:
    """Return the claim of a volume; empty if it has none."""
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")


def name_ephemeral_claim(pod: Object, volume: Object) -> str:
    """Return the claim of a generic ephemeral volume; empty for other volumes and while the pod has no name."""
    name = pod["metadata"].get("name")
    return f"{name}-{volume.get('name')}" if name and volume.get("ephemeral") is not None else ""


def find_host_folder(pod: Object) -> str:
    """Return the volume that gives access to the nodes' caches without a claim; empty if there is none."""
    root = str(HOST_FOLDER)
    for volume in pod["spec"].get("volumes") or []:
        path = posixpath.normpath("/" + str((volume.get("hostPath") or {}).get("path") or "").lstrip("/"))
        if path == root or path.startswith(f"{root}/") or _PROCESS_ROOT.match(path):
            return str(volume.get("name"))
    return ""


def find_root(mount: Object) -> str:
    """Return the path at which a container sees the root of a volume; empty if it does not."""
    path = posixpath.normpath(str(mount.get("mountPath") or "/"))
    within = str(mount.get("subPath") or "").strip("/")
    if not within:
        return "" if mount.get("subPathExpr") else path
    return path.removesuffix(f"/{within}") if path.endswith(f"/{within}") else ""


def put_first(pod: Object, container: Object) -> None:
    """Insert an init container before all others, or replace the one with its name."""
    present = pod["spec"].setdefault("initContainers", []) or []
    for number, each in enumerate(present):
        if each.get("name") == container["name"]:
            present[number] = container
            return
    pod["spec"]["initContainers"] = [container, *present]
