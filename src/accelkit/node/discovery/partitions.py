"""Parts of a card that its driver gives as cards of their own: instances of NVIDIA's MIG, partitions of AMD's cards.

A card that is in parts is no card any more: who holds it whole would hold its parts too. Each part has an identity, an
amount of memory, and device nodes of its own beside, or in place of, those of the card that it is a part of.
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
# Before the model's suffix, as NVIDIA's library itself puts it.
_MIG: Final = " MIG "


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a card.

    Attributes:
        key: tells it from the other parts of the same card, where it has no identity of its own.
        part_of: what the vendor's tools call the card that it is a part of; empty when unknown.
        nvml: what NVIDIA's library says of it, as of a card; None of another vendor's.
        kfd: what AMD's compute driver says of it; None of another vendor's.
        minor: the driver's number of this part; None where it has none, or where it is not known.
        suffix: of the model's name.
        nodes: device nodes that it needs beside those of the card; None where they are not known.
    """

    key: str
    part_of: str
    nvml: NvmlCard | None = None
    kfd: KfdPart | None = None
    minor: int | None = None
    suffix: str = ""
    nodes: tuple[str, ...] | None = ()


def find_kfd_partitions(root: Path, folder: Path, card: KfdCard | None, uuid: str | None) -> Sequence[Partition]:
    """Return the parts of an AMD card by number; none of a card that is in one piece.

    Args:
        root: the host's root folder.
        folder: the card's, in sysfs.
        card: what the compute driver says of it; None where it does not know it.
        uuid: what the vendor's tools call it; its parts have the same name there.
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
    """Return the number of the card's node beside a render node: both lie in one folder; None where it is not known."""
    entry = root / f"sys/class/drm/renderD{render}"
    # Without the link, its folder would be that of all cards, and the first of them another one.
    return find_trailing_number(entry.resolve().parent, "card*") if entry.is_symlink() and entry.exists() else None


def find_mig_partitions(root: Path, card: NvmlCard | None) -> Sequence[Partition] | None:
    """Return the parts of an NVIDIA card, in the library's order; None of a card that is in one piece.

    A card in MIG mode without any instance has no parts, and nothing can run on it.

    Args:
        root: the host's root folder.
        card: what the library says of the card; None where it does not know it.
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
            # NVLinks are the whole card's, and MIG has none.
            linked={},
            switched=False,
            instances=None,
        ),
        nodes=_find_nodes(root, card, instance),
    )


def _find_nodes(root: Path, card: NvmlCard, instance: NvmlInstance) -> tuple[str, ...] | None:
    """Return the nodes by which the driver lets a process use the instance; another number would be another's."""
    if card.minor is None or instance.gpu_instance is None or instance.compute_instance is None:
        return None
    folder = root / _CAPABILITIES / f"gpu{card.minor}/mig/gi{instance.gpu_instance}"
    files = (folder / "access", folder / f"ci{instance.compute_instance}" / "access")
    minors = [read_key_values(file).get(_MINOR, "") for file in files]
    return tuple(map(_CAP_NODE.format, minors)) if all(each.isdecimal() for each in minors) else None
