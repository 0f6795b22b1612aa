"""The volumes of a pod, and their mounts in the containers of the pod.

A process does not have a separate mount namespace. Therefore, each container with accelkit's image has a folder that
replaces its `/`. The folder contains a link for each mount in the manifest. If a path in the arguments or environment
variables is equal to, below or above a mount path, it is translated to a path in this folder. The folder also contains
the allocated devices, if their files exist on the node, and the termination message file. Read-only mounts and the user
of a container are not enforced.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from accelkit.errors import SandboxError
from accelkit.sandbox.kubelet.wire import Container, HostPath, Pod, Volume

__all__ = ["ContainerRoot", "PodVolumes"]

_PATH: Final = re.compile(r"(?:^|(?<==))/.*", re.DOTALL)
# The check that a kubelet performs for each type of host path.
_CHECKS: Final = {
    "Directory": (Path.is_dir, "a folder"),
    "File": (Path.is_file, "a file"),
    "Socket": (Path.is_socket, "a socket"),
    "CharDevice": (Path.is_char_device, "a character device"),
    "BlockDevice": (Path.is_block_device, "a block device"),
}


class ContainerRoot:
    """The folder that is a container's `/`, and the paths of its mounts."""

    def __init__(self, folder: Path, mounts: tuple[str, ...]) -> None:
        self._folder = folder
        self._mounts = mounts

    def place(self, path: str) -> str:
        """Return the path on this machine for any path in the container, even if it is not mounted."""
        return str(self._folder / path.lstrip("/"))

    def translate(self, text: str) -> str:
        """Translate an argument or the value of a variable, if it is a path or ends with `=` and a path."""
        # The replacement is a function, because `re` would interpret backslashes in a replacement string.
        return _PATH.sub(lambda found: self._translate_path(found[0]), text)

    def _translate_path(self, path: str) -> str:
        bare = path.rstrip("/")
        mounted = any(f"{bare}/".startswith(f"{mount}/") or mount.startswith(f"{bare}/") for mount in self._mounts)
        return self.place(path) if bare and mounted else path


class PodVolumes:
    """The volumes of one pod on a simulated node.

    Args:
        root: the folder that is the node's `/`.
        pod: the pod, bound to the node.
    """

    def __init__(self, root: Path, pod: Pod) -> None:
        self._root = root
        self._pod = pod
        self._folder = root / "var/lib/kubelet/pods" / pod.metadata.uid

    def list_account_folders(self) -> list[Path]:
        """Return the folders of the volumes that contain the files of the pod's service account."""
        volumes = self._pod.spec.volumes
        return [self._own(each) for each in volumes if each.projected is not None and each.projected.account]

    def mount(self, container: Container, devices: Collection[str] = ()) -> ContainerRoot:
        """Create the folder that is a container's `/`. It replaces any existing folder.

        Args:
            container: a container in the pod.
            devices: the device nodes that are allocated to the container. Links are created for the device nodes that
                exist in the node's folder.

        Raises:
            SandboxError: a host path does not have the type in the manifest, or a mount cannot be represented by links.
        """
        folder = self._name_root(container)
        volumes = {volume.name: volume for volume in self._pod.spec.volumes}
        shutil.rmtree(folder, ignore_errors=True)
        mounts = sorted((mount.mount_path.rstrip("/"), volumes[mount.name]) for mount in container.volume_mounts)
        try:
            folder.mkdir(parents=True)
            for path, volume in mounts:
                _link(folder, folder / path.lstrip("/"), self._find(volume))
            own = [path for path in devices if self._link_device(folder, path)]
            message = container.termination_message_path
            if _make_room(folder, folder / message.lstrip("/")):
                (folder / message.lstrip("/")).touch()
                own.append(message)
        except OSError as exc:
            raise SandboxError(f"cannot mount the volumes of container {container.name}: {exc}") from exc
        return ContainerRoot(folder, (*(path for path, _ in mounts), *own))

    def remove(self) -> None:
        """Remove the folders of the pod, including its token."""
        spec = self._pod.spec
        for folder in (*map(self._name_root, (*spec.init_containers, *spec.containers)), self._folder):
            shutil.rmtree(folder, ignore_errors=True)

    def _link_device(self, folder: Path, path: str) -> bool:
        place, source = folder / path.lstrip("/"), self._root / path.lstrip("/")
        if not source.exists() or not _make_room(folder, place):
            return False
        place.symlink_to(source)
        return True

    def _name_root(self, container: Container) -> Path:
        # Use a short name, because the length of UNIX socket paths is limited.
        name = hashlib.sha256(f"{self._pod.metadata.uid}/{container.name}".encode()).hexdigest()[:6]
        return self._root / "run" / name

    def _own(self, volume: Volume) -> Path:
        return self._folder / "volumes" / volume.name

    def _find(self, volume: Volume) -> Path:
        if volume.host_path is not None:
            return self._check(volume.host_path)
        if volume.empty_dir is None and (volume.projected is None or not volume.projected.account):
            raise SandboxError(
                f"cannot mount volume {volume.name}: the sandbox supports only hostPath, emptyDir and service accounts"
            )
        own = self._own(volume)
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        return own

    def _check(self, host_path: HostPath) -> Path:
        path = self._root / host_path.path.lstrip("/")
        if host_path.type in _CHECKS:
            check, kind = _CHECKS[host_path.type]
            if not check(path):
                raise SandboxError(f"hostPath type check failed: {host_path.path} is not {kind}")
        elif host_path.type == "FileOrCreate":
            path.touch()
        elif not path.exists():
            # If the type is empty, container runtimes create missing folders.
            path.mkdir(parents=True)
        return path


def _make_room(root: Path, place: Path) -> bool:
    """Create the parent folder of a path; return whether the path does not exist yet and is outside all mounts."""
    place.parent.mkdir(parents=True, exist_ok=True)
    return place.parent.resolve().is_relative_to(root.resolve()) and not place.exists()


def _link(root: Path, place: Path, source: Path) -> None:
    if place.resolve() == source.resolve():
        # The path is inside another mount that already contains the source.
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.parent.resolve().is_relative_to(root.resolve()) or place.exists():
        raise SandboxError(f"cannot mount at {place}: it is inside another mount, in which a link cannot replace files")
    place.symlink_to(source)
