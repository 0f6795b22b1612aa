"""The files that vendors' drivers create for a fake card: files in sysfs and proc, and device nodes."""

from __future__ import annotations

import shutil

from accelkit.sandbox.fake_host.files import FakeCard, HostFiles

__all__ = ["DRIVER_ENTRIES", "write_driver", "write_kfd"]

# The major device numbers, as defined by the kernel or the drivers.
_NVIDIA, _DRM, _ACCEL, _KFD, _GCU = 195, 226, 261, 511, 239
_FIRST_RENDER = 128
_XGMI = 11
# The entries that drivers add to the folder of a PCI device.
DRIVER_ENTRIES = (
    "drm",
    "accel",
    "enflame",
    "unique_id",
    "product_name",
    "mem_info_vram_total",
    "ras",
    "rom.u.0",
)


def write_driver(host: HostFiles, card: FakeCard) -> None:
    """Write the files that exist while a driver is bound to a card."""
    _WRITERS[card.vendor](host, card)


def _write_nvidia(host: HostFiles, card: FakeCard) -> None:
    lines = {
        "Model": f"\t\t {card.model.name}",
        "GPU UUID": f"\t GPU-{card.number:08x}-{host.machine_id[:4]}-4000-8000-{host.machine_id[4:16]}",
        "Device Minor": f"\t {card.number}",
    }
    text = "\n".join(f"{key}: {value}" for key, value in lines.items())
    host.write(f"proc/driver/nvidia/gpus/{card.bdf}/information", text)
    host.make_device_node(f"nvidia{card.number}", _NVIDIA, card.number)
    host.make_device_node("nvidiactl", _NVIDIA, 255)
    host.make_device_node("nvidia-uvm", _NVIDIA + 10, 0)


def _write_amd(host: HostFiles, card: FakeCard) -> None:
    folder = host.find_device_folder(card.bdf)
    host.write(folder / "unique_id", f"{_compute_unique_id(host, card):016x}")
    host.write(folder / "product_name", card.model.name)
    host.write(folder / "mem_info_vram_total", str(card.model.memory_bytes))
    host.write(folder / "ras/umc_err_count", "ue: 0\nce: 0")
    _write_drm(host, card)
    host.make_device_node("kfd", _KFD, 0)


def _write_intel(host: HostFiles, card: FakeCard) -> None:
    _write_drm(host, card)
    if card.model.memory_file:
        drm = f"drm/card{card.order}"
        host.write(host.find_device_folder(card.bdf) / drm / "lmem_total_bytes", str(card.model.memory_bytes))
    else:
        regions = [
            f"drm/{each.bdf}/vram0 {each.model.memory_bytes}" for each in host.cards if not each.model.memory_file
        ]
        host.write("sys/fs/cgroup/dmem.capacity", "\n".join(regions))


def _write_gaudi(host: HostFiles, card: FakeCard) -> None:
    folder, name = host.find_device_folder(card.bdf), f"accel{card.number}"
    host.write(folder / "accel" / name / "dev", f"{_ACCEL}:{2 * card.number}")
    host.link(f"sys/class/accel/{name}", folder / "accel" / name)
    host.make_device_node(f"accel/{name}", _ACCEL, 2 * card.number)
    host.make_device_node(f"accel/accel_controlD{card.number}", _ACCEL, 2 * card.number + 1)


def _write_enflame(host: HostFiles, card: FakeCard) -> None:
    host.write(host.find_device_folder(card.bdf) / "enflame" / f"gcu{card.number}" / "dev", f"{_GCU}:{card.number}")
    host.make_device_node(f"gcu{card.number}", _GCU, card.number)
    host.make_device_node("gcuctl", _GCU, 255)


def _write_xilinx(host: HostFiles, card: FakeCard) -> None:
    host.write(host.find_device_folder(card.bdf) / "rom.u.0" / "VBNV", card.model.name)
    _write_drm(host, card)


def _write_drm(host: HostFiles, card: FakeCard) -> None:
    # DRM uses a single sequence of numbers for the cards of all vendors.
    folder = host.find_device_folder(card.bdf)
    for name, minor in (("card", card.order), ("renderD", _FIRST_RENDER + card.order)):
        entry = f"{name}{minor}"
        host.write(folder / "drm" / entry / "dev", f"{_DRM}:{minor}")
        host.link(f"sys/class/drm/{entry}", folder / "drm" / entry)
        host.make_device_node(f"dri/{entry}", _DRM, minor)


def write_kfd(host: HostFiles) -> None:
    """Rewrite the topology of AMD's compute driver (KFD): one node for the processor, followed by one for each card."""
    cards = [card for card in host.cards if card.vendor == "amd" and card.bdf not in host.without_driver]
    nodes = "sys/class/kfd/kfd/topology/nodes"
    shutil.rmtree(host.root / nodes, ignore_errors=True)
    if not cards:
        return
    host.write(f"{nodes}/0/properties", "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndomain 0")
    for here, card in enumerate(cards, 1):
        domain, bus, place = card.bdf.split(":")
        location = int(bus, 16) << 8 | int(place.split(".")[0], 16) << 3
        properties = {
            "simd_count": 1216,
            "location_id": location,
            "domain": int(domain, 16),
            # All cards of one model form one XGMI hive.
            "hive_id": int(card.model.device, 16) if card.model.fabric else 0,
        }
        host.write(f"{nodes}/{here}/properties", _format_properties(properties))
        bank = {"heap_type": 1, "size_in_bytes": card.model.memory_bytes}
        host.write(f"{nodes}/{here}/mem_banks/0/properties", _format_properties(bank))
        if not card.model.fabric:
            continue
        ends = [there for there, other in enumerate(cards, 1) if there != here and other.model == card.model]
        for number, there in enumerate(ends):
            link = {"type": _XGMI, "node_to": there}
            host.write(f"{nodes}/{here}/io_links/{number}/properties", _format_properties(link))


def _format_properties(properties: dict[str, int]) -> str:
    return "\n".join(f"{key} {value}" for key, value in properties.items())


def _compute_unique_id(host: HostFiles, card: FakeCard) -> int:
    return int(host.machine_id[:12], 16) << 16 | card.number


_WRITERS = {
    "nvidia": _write_nvidia,
    "amd": _write_amd,
    "intel": _write_intel,
    "gaudi": _write_gaudi,
    "enflame": _write_enflame,
    "xilinx": _write_xilinx,
}
