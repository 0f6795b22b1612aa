"""Access to the fields of a pod that is being created. The decoded JSON is not validated by the API server yet."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final

from accelkit.gkm.names import HOST_FOLDER

Object = dict[str, Any]
# All types of containers. Ephemeral containers are usually added later, when this webhook is not called.
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
# The root, working directory and open files of a process provide access to the whole node.
_PROCESS_ROOT: Final = re.compile(r"/proc/(.*/)?(root|cwd|fd|kernel-caches)(/|$)")


def list_containers(pod: Object) -> list[Object]:
    """Return all containers of a pod, regular containers first."""
    return [each for kind in _CONTAINERS for each in pod["spec"].get(kind) or []]


def list_mounts(pod: Object, volume: str) -> Iterator[tuple[Object, Object]]:
    """Yield each mount of a volume, with its container."""
    for container in list_containers(pod):
        for mount in container.get("volumeMounts") or []:
            if mount.get("name") == volume:
                yield container, mount


def find_volume(pod: Object, name: str) -> Object | None:
    """Return the volume with this name; None if it does not exist."""
    return next((each for each in pod["spec"].get("volumes") or [] if each.get("name") == name), None)


def get_claim(volume: Object) -> str:
    """Return the claim name of a volume; empty if the volume does not use a claim."""
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")


def name_ephemeral_claim(pod: Object, volume: Object) -> str:
    """Return the claim name of a generic ephemeral volume; empty for other volumes and for pods without a name."""
    name = pod["metadata"].get("name")
    return f"{name}-{volume.get('name')}" if name and volume.get("ephemeral") is not None else ""


def find_host_folder(pod: Object) -> str:
    """Return the name of a hostPath volume that exposes the node's kernel caches; empty if no volume exposes them."""
    root = str(HOST_FOLDER)
    for volume in pod["spec"].get("volumes") or []:
        path = posixpath.normpath("/" + str((volume.get("hostPath") or {}).get("path") or "").lstrip("/"))
        if path == root or path.startswith(f"{root}/") or _PROCESS_ROOT.match(path):
            return str(volume.get("name"))
    return ""


def find_root(mount: Object) -> str:
    """Return the path at which a container mounts a volume's root; empty if it does not mount the root."""
    path = posixpath.normpath(str(mount.get("mountPath") or "/"))
    within = str(mount.get("subPath") or "").strip("/")
    if not within:
        return "" if mount.get("subPathExpr") else path
    return path.removesuffix(f"/{within}") if path.endswith(f"/{within}") else ""


def put_first(pod: Object, container: Object) -> None:
    """Insert an init container before all other init containers, or replace the init container with the same name."""
    present = pod["spec"].setdefault("initContainers", []) or []
    for number, each in enumerate(present):
        if each.get("name") == container["name"]:
            present[number] = container
            return
    pod["spec"]["initContainers"] = [container, *present]
