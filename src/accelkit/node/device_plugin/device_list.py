"""The list of devices that a plugin sends to its kubelet."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.devices import memory_ids
from accelkit.node.kubelet import MAX_MESSAGE_BYTES


def device_list(
    cards: Sequence[Card], *, whole: bool, unit_bytes: int, in_use: Collection[str] = ()
) -> api.ListAndWatchResponse:
    """Return what the kubelet is told of the cards.

    Devices of a card that takes no new shares are unhealthy, but not those in use: what a node can allocate must never
    fall below what its pods hold.

    Args:
        cards: the node's cards.
        whole: whether the devices are whole cards, or units of memory.
        unit_bytes: one unit of memory.
        in_use: the device IDs that containers hold.

    Raises:
        DevicePluginError: the message is longer than the kubelet takes.
    """
    answer = api.ListAndWatchResponse()
    for card in cards:
        topology = None if card.numa is None else api.TopologyInfo(nodes=[api.NUMANode(ID=card.numa)])
        for device_id in [card.id] if whole else memory_ids(card, unit_bytes):
            # What is unknown stays: only a card known to be bad is taken out.
            health = "Healthy" if card.placeable or device_id in in_use else "Unhealthy"
            answer.devices.append(api.Device(ID=device_id, health=health, topology=topology))
    if answer.ByteSize() > MAX_MESSAGE_BYTES:
        raise DevicePluginError(
            f"{len(answer.devices)} devices make a message of {answer.ByteSize()} bytes; "
            f"the kubelet takes {MAX_MESSAGE_BYTES}",
            next_step="choose a larger unit of memory",
        )
    return answer
