"""A host with simulated cards: a folder with the files of the kernel and of the vendors' drivers.

    FakeHost(root).add("nvidia", 8, "H200").add("amd", 4, "MI300X")

Each PCI switch has two cards, and each root complex has two switches. Root complexes alternate between two NUMA nodes.
Some methods simulate faults of real hosts.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

from accelkit.sandbox.fake_host.drivers import DRIVER_ENTRIES, write_driver, write_kfd
from accelkit.sandbox.fake_host.files import FakeCard, HostFiles
from accelkit.sandbox.fake_host.models import FakeModel, find_model

__all__ = ["FakeHost"]

_PLX = ("10b5", "8747")
_ROOT_PORT = ("1022", "14a5")
_BRIDGE_CLASS = "060400"
_CARDS_PER_SWITCH = 2
_SWITCHES_PER_COMPLEX = 2
_COMPLEXES_PER_DOMAIN = 4
_NUMA_NODES = 2
_AER_TOTALS = {"correctable": "COR", "nonfatal": "NONFATAL", "fatal": "FATAL"}


class FakeHost(HostFiles):
    """A host with cards that can be added, fail or be removed. See HostFiles for the arguments."""

    def add(self, vendor: str, count: int, model: str) -> Self:
        """Add cards of a vendor.

        Raises:
            SandboxError: the vendor or the model is unknown.
        """
        known = find_model(vendor, model)
        for _ in range(count):
            order = len(self.cards)
            number = sum(card.vendor == vendor for card in self.cards)
            card = FakeCard(vendor, known, self._insert(known, order), number, order)
            self.cards.append(card)
            write_driver(self, card)
        write_kfd(self)
        return self

    def remove(self, bdf: str) -> None:
        """Remove a card from the PCI bus, as a hardware fault would."""
        folder = self.find_device_folder(bdf)
        self.unbind(bdf)
        (self.root / "sys/bus/pci/devices" / bdf).unlink()
        shutil.rmtree(folder)

    def unbind(self, bdf: str) -> None:
        """Unbind the driver from a card, and remove the driver's files."""
        folder = self.find_device_folder(bdf)
        if (folder / "driver").exists():
            ((folder / "driver").resolve() / bdf).unlink()
        self.without_driver.add(bdf)
        for entry in ("driver", *DRIVER_ENTRIES):
            path = folder / entry
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.root / "proc/driver/nvidia/gpus" / bdf, ignore_errors=True)
        write_kfd(self)

    def bind(self, bdf: str) -> None:
        """Bind the driver to a card and write the driver's files, as if the kernel module had been loaded."""
        (card,) = (each for each in self.cards if each.bdf == bdf)
        self.without_driver.discard(bdf)
        self._link_driver(card.model, bdf)
        write_driver(self, card)
        write_kfd(self)

    def set_aer(self, bdf: str, kind: str, count: int) -> None:
        """Set a card's counter of PCI errors. `kind` is correctable, nonfatal or fatal."""
        (self.find_device_folder(bdf) / f"aer_dev_{kind}").write_text(
            f"RxErr {count}\nTOTAL_ERR_{_AER_TOTALS[kind]} {count}\n"
        )

    def _insert(self, model: FakeModel, order: int) -> str:
        """Add a PCI device to the next free slot; return its address."""
        switch, place = divmod(order, _CARDS_PER_SWITCH)
        complex_, port = divmod(switch, _SWITCHES_PER_COMPLEX)
        domain, complex_in_domain = divmod(complex_, _COMPLEXES_PER_DOMAIN)
        base, numa = 0x10 + 0x40 * complex_in_domain, complex_ % _NUMA_NODES
        bus = base + 1 + 8 * port
        bridges = (
            (f"{domain:04x}:{base:02x}:0{1 + port}.0", _ROOT_PORT),
            (f"{domain:04x}:{bus:02x}:00.0", _PLX),
            (f"{domain:04x}:{bus + 1:02x}:0{place}.0", _PLX),
        )
        folder = self.root / "sys/devices" / f"pci{domain:04x}:{base:02x}"
        for bdf, (vendor, device) in bridges:
            folder /= bdf
            self._write_pci_device(folder, vendor, device, _BRIDGE_CLASS, numa)
        bdf = f"{domain:04x}:{bus + 2 + place:02x}:00.0"
        folder /= bdf
        self._write_pci_device(folder, model.vendor, model.device, model.pci_class, numa)
        self.write(folder / "current_link_width", "16")
        for kind in _AER_TOTALS:
            self.set_aer(bdf, kind, 0)
        self._link_driver(model, bdf)
        return bdf

    def _link_driver(self, model: FakeModel, bdf: str) -> None:
        driver, folder = self.root / "sys/bus/pci/drivers" / model.driver, self.find_device_folder(bdf)
        driver.mkdir(parents=True, exist_ok=True)
        self.link(f"sys/bus/pci/devices/{bdf}/driver", driver)
        self.link(f"sys/bus/pci/drivers/{model.driver}/{bdf}", folder)

    def _write_pci_device(self, folder: Path, vendor: str, device: str, pci_class: str, numa: int) -> None:
        for name, value in {"vendor": vendor, "device": device, "class": pci_class}.items():
            self.write(folder / name, f"0x{value}")
        self.write(folder / "numa_node", str(numa))
        (folder / "config").write_bytes(bytes.fromhex(vendor)[::-1] + bytes.fromhex(device)[::-1] + bytes(60))
        self.link(f"sys/bus/pci/devices/{folder.name}", folder)
