"""What a container is given for the devices it got: environment and device nodes, by the vendor's profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.devices import by_card
from accelkit.node.discovery import FoundCard

# What the program in the container may take, for it to respect.
MEMORY_VARIABLE = "ACCELKIT_MEMORY_BYTES"


def container_response(
    device_ids: Sequence[str], cards: Sequence[FoundCard], root: Path, *, unit_bytes: int | None
) -> api.ContainerAllocateResponse:
    """Return the kubelet's answer for one container.

    Args:
        device_ids: what the kubelet chose.
        cards: this node's cards.
        root: the host's root folder, where a profile's optional device nodes are looked for.
        unit_bytes: what one device is in bytes; None where each is a whole card.

    Raises:
        DevicePluginError: an ID names a card that this node does not have.
    """
    units = by_card(device_ids)
    granted = [found for found in cards if found.card.id in units]
    if unknown := units.keys() - {found.card.id for found in granted}:
        raise DevicePluginError(
            f"the kubelet chose devices of cards this node does not have: {', '.join(sorted(unknown))}"
        )
    answer = api.ContainerAllocateResponse()
    if unit_bytes is not None:
        answer.envs[MEMORY_VARIABLE] = str(len(device_ids) * unit_bytes)
    elif all(found.card.memory_bytes is not None for found in granted):
        # A sum without what is unknown would tell the program to take less than it was given, or nothing.
        answer.envs[MEMORY_VARIABLE] = str(sum(found.card.capacity_bytes for found in granted))
    for profile in {found.profile.name: found.profile for found in granted}.values():
        own = [found for found in granted if found.profile.name == profile.name]
        ids, indices = ",".join(f.card.id for f in own), ",".join(str(f.index) for f in own)
        for name, pattern in profile.environment.items():
            answer.envs[name] = pattern.format(ids=ids, indices=indices)
        paths = [path for each in own for path in card_nodes(each)]
        paths += [path for path in profile.node_nodes if (root / path.removeprefix("/")).exists()]
        for path in paths:
            answer.devices.add(container_path=path, host_path=path, permissions="rw")
    return answer


def card_nodes(found: FoundCard) -> list[str]:
    """Return the paths of a card's own device nodes."""
    return [path.format(index=found.index, minor=found.minor) for path in found.profile.card_nodes]
