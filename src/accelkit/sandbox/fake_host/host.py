"""A host with cards that are files: what the kernel and the vendors' drivers show, below a folder.

    FakeHost(root).nvidia(8, "H200").amd(4, "MI300X")

Two cards hang at each PCI switch, two switches at each root complex; root complexes alternate between two NUMA nodes.
Things can then be broken as they break on real hosts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from accelkit.sandbox.fake_host.drivers import SHOWN, show, write_kfd
from accelkit.sandbox.fake_host.models import FakeModel, model_of

_PLX = ("10b5", "8747")
_ROOT_PORT = ("1022", "14a5")
_BRIDGE_CLASS = "060400"
_CARDS_PER_SWITCH = 2
_SWITCHES_PER_COMPLEX = 2
_COMPLEXES_PER_DOMAIN = 4
_NUMA_NODES = 2
_AER_TOTALS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}


@dataclass(frozen=True, slots=True)
class FakeCard:
    """One card: `number` counts the vendor's cards of the host, `order` all of them."""

    vendor: str
    model: FakeModel
    bdf: str
    number: int
    order: int


class FakeHost:
    """Writes `sys`, `proc`, `dev` and `etc` below a root, and adds to what earlier calls wrote.

    Args:
        root: the folder, which is made where it is not there.
        name: the host's; machine id and serial numbers follow from it, so that hosts differ and each stays the same.
        device_nodes: whether to make character devices, which only root may; else they are empty files.
    """

    def __init__(self, root: Path, *, name: str = "fake-host", device_nodes: bool = False) -> None:
        self.root = root
        self.machine_id = hashlib.sha256(name.encode()).hexdigest()[:32]
        self.cards: list[FakeCard] = []
        self.without_driver: set[str] = set()
        self._device_nodes = device_nodes
        self.write("etc/machine-id", self.machine_id)
        (root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)

    def add(self, vendor: str, count: int, model: str) -> Self:
        """Add cards of a vendor.

        Raises:
            SandboxError: no such vendor or model is known.
        """
        known = model_of(vendor, model)
        for _ in range(count):
            order = len(self.cards)
            number = sum(card.vendor == vendor for card in self.cards)
            card = FakeCard(vendor, known, self._slot(known, order), number, order)
            self.cards.append(card)
            show(self, card)
        return self

    def device(self, bdf: str) -> Path:
        """Return a PCI device's folder."""
        return (self.root / "sys/bus/pci/devices" / bdf).resolve()

    def remove(self, bdf: str) -> None:
        """Take a card off the bus, as when it has fallen off."""
        folder = self.device(bdf)
        self.unbind(bdf)
        (self.root / "sys/bus/pci/devices" / bdf).unlink()
        shutil.rmtree(folder)

    def unbind(self, bdf: str) -> None:
        """Take its driver from a card, with what the driver showed of it."""
        folder = self.device(bdf)
        if (folder / "driver").exists():
            ((folder / "driver").resolve() / bdf).unlink()
        self.without_driver.add(bdf)
        for shown in ("driver", *SHOWN):
            path = folder / shown
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.root / "proc/driver/nvidia/gpus" / bdf, ignore_errors=True)
        write_kfd(self)

    def set_aer(self, bdf: str, kind: str, count: int) -> None:
        """Set a card's counter of PCI errors; `kind` is correctable, nonfatal or fatal."""
        (self.device(bdf) / f"aer_dev_{kind}").write_text(f"RxErr {count}\nTOTAL_ERR_{_AER_TOTALS[kind]} {count}\n")

    def write(self, path: str | Path, content: str) -> None:
        """Write a file below the root, with a newline at its end."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")

    def link(self, path: str, target: Path) -> None:
        """Make a relative link below the root, as sysfs has them."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(os.path.relpath(target, place.parent.resolve()))

    def node(self, name: str, major: int, minor: int) -> None:
        """Make a device node in `dev`, where it is not there."""
        path = self.root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            return
        if self._device_nodes:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        else:
            path.touch()

    def _slot(self, model: FakeModel, order: int) -> str:
        """Put a PCI device into the next free place; return its address."""
        switch, place = divmod(order, _CARDS_PER_SWITCH)
        complex_, port = divmod(switch, _SWITCHES_PER_COMPLEX)
        domain, complex_in_domain = divmod(complex_, _COMPLEXES_PER_DOMAIN)
        base, numa = 0x10 + 0x40 * complex_in_domain, complex_ % _NUMA_NODES
        bus = base + 1 + 8 * port
        way = (
            (f"{domain:04x}:{base:02x}:0{1 + port}.0", _ROOT_PORT),
            (f"{domain:04x}:{bus:02x}:00.0", _PLX),
            (f"{domain:04x}:{bus + 1:02x}:0{place}.0", _PLX),
        )
        folder = self.root / "sys/devices" / f"pci{domain:04x}:{base:02x}"
        for bdf, (vendor, device) in way:
            folder /= bdf
            self._pci(folder, vendor, device, _BRIDGE_CLASS, numa)
        bdf = f"{domain:04x}:{bus + 2 + place:02x}:00.0"
        folder /= bdf
        self._pci(folder, model.vendor, model.device, model.pci_class, numa)
        for name, value in (("speed", "16.0 GT/s PCIe"), ("width", "16")):
            self.write(folder / f"max_link_{name}", value)
            self.write(folder / f"current_link_{name}", value)
        for kind in _AER_TOTALS:
            self.set_aer(bdf, kind, 0)
        driver = self.root / "sys/bus/pci/drivers" / model.driver
        driver.mkdir(parents=True, exist_ok=True)
        self.link(f"{folder.relative_to(self.root)}/driver", driver)
        self.link(f"sys/bus/pci/drivers/{model.driver}/{bdf}", folder)
        return bdf

    def _pci(self, folder: Path, vendor: str, device: str, pci_class: str, numa: int) -> None:
        facts = {"vendor": vendor, "device": device, "class": pci_class, "subsystem_vendor": vendor}
        for name, value in facts.items():
            self.write(folder / name, f"0x{value}")
        self.write(folder / "numa_node", str(numa))
        (folder / "config").write_bytes(bytes.fromhex(vendor)[::-1] + bytes.fromhex(device)[::-1] + bytes(60))
        self.link(f"sys/bus/pci/devices/{folder.name}", folder)
