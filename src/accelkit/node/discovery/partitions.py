"""Parts of a card that its driver provides as separate cards: NVIDIA MIG instances, and partitions of AMD cards.

A card with parts is not treated as a card, because a container with the whole card would also have access to its parts.
Each part has its own identity and amount of memory. The device nodes of the part replace or supplement the nodes of the
card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from accelkit.node.discovery.kfd import KfdCard, KfdPart
from accelkit.node.discovery.nvml import NvmlCard, NvmlInstance
from accelkit.node.discovery.sysfs import find_trailing_number, read_key_values, read_text

_CAPABILITIES: Final = "proc/driver/nvidia/capabilities"
_MINOR: Final = "DeviceFileMinor"
_CAP_NODE: Final = "/dev/nvidia-caps/nvidia-cap{}"
# The separator before the suffix of a model in the names from NVIDIA's library.
_MIG: Final = " MIG "


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a card.

    Attributes:
        key: the key that distinguishes the part from other parts of the same card if it does not have its own identity.
        part_of: the name, in the vendor's tools, of the card that contains it; empty if it is unknown.
        nvml: the facts about it from NVIDIA's library, in the same format as for a card; None for other vendors.
        kfd: the facts about it from AMD's compute driver; None for other vendors.
        minor: the number that the driver assigned to this part; None if it is missing or unknown.
        suffix: the suffix of the model's name.
        nodes: the device nodes that it requires in addition to the nodes of the card; None if they are unknown.
    """

    key: str
    part_of: str
    nvml: NvmlCard | None = None
    kfd: KfdPart | None = None
    minor: int | None = None
    suffix: str = ""
    nodes: tuple[str, ...] | None = ()


def find_kfd_partitions(root: Path, folder: Path, card: KfdCard | None, uuid: str | None) -> Sequence[Partition]:
    """Return the parts of an AMD card, sorted by number; empty for a card without parts.

    Args:
        root: the host's root folder.
        folder: the folder of the card in sysfs.
        card: the facts about the card from the compute driver; None if the driver does not list the card.
        uuid: the name of the card in the vendor's tools, which is also the name of its parts.
    """
    parts = card.parts if card else ()
    mode = read_text(folder / "current_compute_partition")
    return [
        Partition(
            key=f"p{part.number}",
            part_of=uuid or "",
            kfd=part,
            minor=_find_card_number(root, part.render),
            suffix=f" {mode}" if mode else f" 1/{len(parts)}",
        )
        for part in parts
    ]


def _find_card_number(root: Path, render: int) -> int | None:
    """Return the number of the card's DRM node from the folder of its render node; None if it is unknown."""
    entry = root / f"sys/class/drm/renderD{render}"
    # If the entry is not a link, its parent is the folder of all cards, in which the first entry may be another card.
    return find_trailing_number(entry.resolve().parent, "card*") if entry.is_symlink() and entry.exists() else None


def find_mig_partitions(root: Path, card: NvmlCard | None) -> Sequence[Partition] | None:
    """Return the parts of an NVIDIA card, in the library's order; None for a card that is not in MIG mode.

    A card in MIG mode without instances has no parts, and programs cannot run on it.

    Args:
        root: the host's root folder.
        card: the facts about the card from the library; None if the library does not detect the card.
    """
    if card is None or card.instances is None:
        return None
    return [_build_partition(root, card, instance) for instance in card.instances]


def _build_partition(root: Path, card: NvmlCard, instance: NvmlInstance) -> Partition:
    name = card.name if instance.name is None or _MIG not in instance.name else instance.name.partition(_MIG)[0]
    profile = instance.name.partition(_MIG)[2] if instance.name and _MIG in instance.name else ""
    return Partition(
        key=f"gi{instance.gpu_instance}-ci{instance.compute_instance}",
        part_of=card.uuid or "",
        nvml=replace(
            card,
            uuid=instance.uuid,
            name=f"{name}{_MIG}{profile}" if name and profile else instance.name,
            memory_bytes=instance.memory_bytes,
            reserved_bytes=instance.reserved_bytes,
            # NVLinks belong to the whole card. MIG instances have no NVLinks.
            linked={},
            switched=False,
            instances=None,
        ),
        nodes=_find_nodes(root, card, instance),
    )


def _find_nodes(root: Path, card: NvmlCard, instance: NvmlInstance) -> tuple[str, ...] | None:
    """Return the device nodes that allow a process to use the instance.

    If a number is unknown, return None, because a guess may be the number of another instance.
    """
    if card.minor is None or instance.gpu_instance is None or instance.compute_instance is None:
        return None
    folder = root / _CAPABILITIES / f"gpu{card.minor}/mig/gi{instance.gpu_instance}"
    files = (folder / "access", folder / f"ci{instance.compute_instance}" / "access")
    minors = [read_key_values(file).get(_MINOR, "") for file in files]
    return tuple(map(_CAP_NODE.format, minors)) if all(each.isdecimal() for each in minors) else None
