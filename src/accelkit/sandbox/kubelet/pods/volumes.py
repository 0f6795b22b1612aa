"""The volumes of a pod, and what each of its containers sees of them.

A process has no mount namespace. So each container of our image has a folder in the place of its `/`, with a link for
each mount of its manifest and nothing else; paths in its arguments and its environment that lead to a mount, or to a
folder above one, are turned into paths below that folder. Its `/dev` has the devices that it was given, where the node
has such files, and the file of its last words. That a mount is read-only is not enforced, nor is the user
that a container runs as.
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
# What a host path of a type must be before the pod may start, as kubelets check it.
_CHECKS: Final = {
    "Directory": (Path.is_dir, "a folder"),
    "File": (Path.is_file, "a file"),
    "Socket": (Path.is_socket, "a socket"),
    "CharDevice": (Path.is_char_device, "a character device"),
    "BlockDevice": (Path.is_block_device, "a block device"),
}


class ContainerRoot:
    """The folder that is a container's `/`, and the paths at which its volumes are mounted."""

    def __init__(self, folder: Path, mounts: tuple[str, ...]) -> None:
        self._folder = folder
        self._mounts = mounts

    def place(self, path: str) -> str:
        """Returns where a path of the container lies here, mounted or not."""
        return str(self._folder / path.lstrip("/"))

    def translate(self, text: str) -> str:
        """Returns an argument or a variable with its path, whole or behind a `=`, as one of this machine."""
        # A function, because a path may have what a replacement text takes for a reference.
        return _PATH.sub(lambda found: self._translate_path(found[0]), text)

    def _translate_path(self, path: str) -> str:
        asked = path.rstrip("/")
        near = any(f"{asked}/".startswith(f"{mount}/") or mount.startswith(f"{asked}/") for mount in self._mounts)
        return self.place(path) if asked and near else path


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
        """Returns the folders of the volumes that hold the files of the pod's service account."""
        volumes = self._pod.spec.volumes
        return [self._own(each) for each in volumes if each.projected is not None and each.projected.account]

    def mount(self, container: Container, devices: Collection[str] = ()) -> ContainerRoot:
        """Makes a container's `/` anew.

        Args:
            container: one of the pod's.
            devices: the device nodes that it was given; those that the node's folder has are seen in its `/dev`.

        Raises:
            SandboxError: a host path is not what the manifest says, or a mount is one that links cannot show.
        """
        folder = self._name_root(container)
        volumes = {volume.name: volume for volume in self._pod.spec.volumes}
        shutil.rmtree(folder, ignore_errors=True)
        mounts = sorted((mount.mount_path.rstrip("/"), volumes[mount.name]) for mount in container.volume_mounts)
        try:
            folder.mkdir(parents=True)
            for path, volume in mounts:
                _link(folder, folder / path.lstrip("/"), self._find(volume))
            own = [path for path in devices if self._show_device(folder, path)]
            message = container.termination_message_path
            if _make_room(folder, folder / message.lstrip("/")):
                (folder / message.lstrip("/")).touch()
                own.append(message)
        except OSError as exc:
            raise SandboxError(f"container {container.name}: its volumes cannot be mounted: {exc}") from exc
        return ContainerRoot(folder, (*(path for path, _ in mounts), *own))

    def remove(self) -> None:
        """Removes what is the pod's own; the token is in it."""
        spec = self._pod.spec
        for folder in (*map(self._name_root, (*spec.init_containers, *spec.containers)), self._folder):
            shutil.rmtree(folder, ignore_errors=True)

    def _show_device(self, folder: Path, path: str) -> bool:
        place, source = folder / path.lstrip("/"), self._root / path.lstrip("/")
        if not source.exists() or not _make_room(folder, place):
            return False
        place.symlink_to(source)
        return True

    def _name_root(self, container: Container) -> Path:
        # Short, because the addresses of the unix sockets below it are.
        name = hashlib.sha256(f"{self._pod.metadata.uid}/{container.name}".encode()).hexdigest()[:6]
        return self._root / "run" / name

    def _own(self, volume: Volume) -> Path:
        return self._folder / "volumes" / volume.name

    def _find(self, volume: Volume) -> Path:
        if volume.host_path is not None:
            return self._check(volume.host_path)
        if volume.empty_dir is None and (volume.projected is None or not volume.projected.account):
            raise SandboxError(f"volume {volume.name}: only host paths, emptyDir and service accounts are known here")
        own = self._own(volume)
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        return own

    def _check(self, host_path: HostPath) -> Path:
        path = self._root / host_path.path.lstrip("/")
        if host_path.type in _CHECKS:
            check, what = _CHECKS[host_path.type]
            if not check(path):
                raise SandboxError(f"hostPath type check failed: {host_path.path} is not {what}")
        elif host_path.type == "FileOrCreate":
            path.touch()
        elif not path.exists():
            # The container runtime does so where the type is empty.
            path.mkdir(parents=True)
        return path


def _make_room(root: Path, place: Path) -> bool:
    """Makes the folder of a file of the container's own; False where the place is a mount's."""
    place.parent.mkdir(parents=True, exist_ok=True)
    return place.parent.resolve().is_relative_to(root.resolve()) and not place.exists()


def _link(root: Path, place: Path, source: Path) -> None:
    if place.resolve() == source.resolve():
        # It lies in another mount, which shows it already.
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.parent.resolve().is_relative_to(root.resolve()) or place.exists():
        raise SandboxError(f"{place} lies in another mount, where a link cannot show other files")
    place.symlink_to(source)
