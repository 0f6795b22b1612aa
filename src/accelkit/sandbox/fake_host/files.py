"""The folder tree of a fake host, which contains the files of PCI devices and drivers."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from accelkit.sandbox.fake_host.models import FakeModel

__all__ = ["FakeCard", "HostFiles"]


@dataclass(frozen=True, slots=True)
class FakeCard:
    """One card. `number` is its index among the cards of its vendor, and `order` is its index among all cards."""

    vendor: str
    model: FakeModel
    bdf: str
    number: int
    order: int


class HostFiles:
    """Writer of files in `sys`, `proc`, `dev` and `etc` below a root folder. Each call adds files.

    Args:
        root: the root folder, which is created if it does not exist.
        name: the name of the host, which determines its machine ID and serial numbers.
        device_nodes: whether to create character devices instead of empty files. Character devices require root
            privileges.
    """

    def __init__(self, root: Path, *, name: str = "fake-host", device_nodes: bool = False) -> None:
        self.root = root
        self.machine_id = hashlib.sha256(name.encode()).hexdigest()[:32]
        self.cards: list[FakeCard] = []
        self.without_driver: set[str] = set()
        self._device_nodes = device_nodes
        self.write("etc/machine-id", self.machine_id)
        (root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)

    def find_device_folder(self, bdf: str) -> Path:
        """Return the folder of a PCI device."""
        return (self.root / "sys/bus/pci/devices" / bdf).resolve()

    def write(self, path: str | Path, content: str) -> None:
        """Write a string and a newline to a file below the root folder."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")

    def link(self, path: str, target: Path) -> None:
        """Create a relative symbolic link below the root folder, like the links in sysfs."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(os.path.relpath(target, place.parent.resolve()))

    def make_device_node(self, name: str, major: int, minor: int) -> None:
        """Create a device node in `dev` if it does not exist."""
        path = self.root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            return
        if self._device_nodes:
            os.mknod(path, stat.S_IFCHR, os.makedev(major, minor))
            # mknod applies the umask, but all users must be able to open these device nodes.
            path.chmod(0o666)
        else:
            path.touch()
