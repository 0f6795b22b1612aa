"""The card models that a fake host supports, with the data for the files in sysfs and the files of the drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from accelkit.errors import SandboxError

_GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class FakeModel:
    """A card model. Its PCI IDs consist of four hexadecimal digits.

    Attributes:
        pci_class: the PCI class, as six hexadecimal digits.
        fabric: whether XGMI connects all cards of this model.
        memory_file: whether a file of the driver contains the memory size. Otherwise, the dmem cgroup controller
            reports it.
    """

    vendor: str
    device: str
    pci_class: str
    driver: str
    name: str
    memory_bytes: int = 0
    fabric: bool = False
    memory_file: bool = True


def _nvidia(device: str, name: str) -> FakeModel:
    return FakeModel("10de", device, "030200", "nvidia", name)


def _amd(device: str, name: str, gib: int, *, fabric: bool = True, pci_class: str = "120000") -> FakeModel:
    return FakeModel("1002", device, pci_class, "amdgpu", name, gib * _GIB, fabric)


def _intel(device: str, driver: str, gib: int, pci_class: str = "038000") -> FakeModel:
    return FakeModel("8086", device, pci_class, driver, "", gib * _GIB, memory_file=driver == "i915")


MODELS: Final[Mapping[str, Mapping[str, FakeModel]]] = {
    "nvidia": {
        "T4": _nvidia("1eb8", "Tesla T4"),
        "A10": _nvidia("2236", "NVIDIA A10"),
        "A100": _nvidia("20b2", "NVIDIA A100-SXM4-80GB"),
        "L40S": _nvidia("26b9", "NVIDIA L40S"),
        "H100": _nvidia("2330", "NVIDIA H100 80GB HBM3"),
        "H200": _nvidia("2335", "NVIDIA H200"),
    },
    "amd": {
        "MI210": _amd("740f", "AMD Instinct MI210", 64, pci_class="038000"),
        "MI300X": _amd("74a1", "AMD Instinct MI300X", 192),
        "W7900": _amd("7448", "AMD Radeon PRO W7900", 48, fabric=False, pci_class="030000"),
    },
    "intel": {
        "Max 1550": _intel("0bd5", "i915", 128),
        "Flex 170": _intel("56c0", "i915", 16),
        "B580": _intel("e20b", "xe", 12, "030000"),
        "UHD 770": _intel("4680", "i915", 0, "030000"),
    },
    "gaudi": {
        "Gaudi2": FakeModel("1da3", "1020", "120000", "habanalabs", "GAUDI2"),
        "Gaudi3": FakeModel("1da3", "1060", "120000", "habanalabs", "GAUDI3"),
    },
    "enflame": {
        "I20": FakeModel("1e36", "8001", "120000", "enflame", "I20"),
        "S60": FakeModel("1e36", "c035", "120000", "enflame", "S60"),
    },
    "xilinx": {
        "U250": FakeModel("10ee", "5005", "120000", "xocl", "xilinx_u250_gen3x16_xdma_shell_4_1"),
    },
}


def find_model(vendor: str, name: str) -> FakeModel:
    """Return the model with this vendor and name.

    Raises:
        SandboxError: the vendor or the model is unknown.
    """
    models = MODELS.get(vendor)
    if models is None:
        raise SandboxError(f"unknown vendor of fake cards: {vendor!r}", next_step=f"choose one of {', '.join(MODELS)}")
    if name not in models:
        raise SandboxError(f"unknown card of {vendor}: {name!r}", next_step=f"choose one of {', '.join(models)}")
    return models[name]
