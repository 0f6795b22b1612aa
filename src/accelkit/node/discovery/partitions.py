"""Parts of a card that its driver gives as cards of their own: instances of NVIDIA's MIG, partitions of AMD's cards.

A card that is in parts is no card any more: who holds it whole would hold its parts too. Each part has an identity, an
amount of memory, and device nodes of its own beside, or in place of, those of the card that it is a part of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from accelkit.node.discovery.nvml import NvmlCard, NvmlInstance
from accelkit.node.discovery.sysfs import read_key_values

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
        nvml: what NVIDIA's library says of it, as of a card.
        nodes: device nodes that it needs beside those of the card; None where they are not known.
    """

    key: str
    part_of: str
    nvml: NvmlCard
    nodes: tuple[str, ...] | None


def find_partitions(root: Path, card: NvmlCard | None) -> Sequence[Partition] | None:
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
