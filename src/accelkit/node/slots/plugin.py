"""Device plugin that serves slots of cards to the kubelet.

The plugin advertises one device for each slot of a card. It offers preferred slots and checks the kubelet's choice in
the same way as for units of memory. A container with slots gets the device nodes of its cards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from accelkit.errors import DevicePluginError
from accelkit.model.keys import MEMORY_VARIABLE
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.assigned_pod import Key
from accelkit.node.device_plugin.container_response import build_container_response
from accelkit.node.device_plugin.device_list import HEALTHY
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.discovery import FoundCard
from accelkit.node.kubelet import list_held_devices, list_pod_resources
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.node.slots.pods import SlotPods
from accelkit.vendors.dialects import load_own_dialect

# The newer one of Intel's two drivers. Simulated cards do not have a driver.
_NEWER_DRIVER: Final = "xe"
_SIMULATED: Final = "simulated"
DIALECT: Final = load_own_dialect("gas")


class SlotPlugin(DevicePlugin):
    """Device plugin for the slots of one resource.

    Args:
        root: the host's root folder.
        resource: the extended resource.
        per_card: the number of slots of each card.
        vendors: the vendors of the cards.
        pods: the pods of this node to which slots of the resource are assigned.
        on_allocate: called after each allocation.
        count: called with the result of each allocation, `granted` or `refused`.
        is_managed: returns whether, according to the record of managed resources, kube-scheduler calls the extender for
            the resource.
    """

    def __init__(
        self,
        root: Path,
        *,
        resource: str,
        per_card: int,
        vendors: Collection[str],
        pods: SlotPods,
        on_allocate: Callable[[], None] = lambda: None,
        count: Callable[[str], None] = lambda _result: None,
        is_managed: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(
            root,
            resource=resource,
            whole=False,
            pods=pods,
            allocations=PreferredAllocation(whole=False),
            other=("", PreferredAllocation(whole=True)),
            on_allocate=on_allocate,
            count=count,
            is_managed=is_managed,
        )
        self._per_card = per_card
        self._vendors = vendors
        self._slot_pods = pods
        self._granted: Sequence[FoundCard] = ()
        self.endpoint = f"accelkit-{resource.rpartition('/')[2]}.sock"

    async def advertise(self, cards: Sequence[FoundCard], unit_bytes: int, in_use: Collection[str] = ()) -> None:  # noqa: ARG002 - slots are worth no memory
        """Advertise the slots of the cards to which this resource applies.

        Raises:
            DevicePluginError: the number of devices exceeds the number that the kubelet accepts.
        """
        newer = self._resource.endswith(f"/{_NEWER_DRIVER}")
        own = [each for each in cards if each.card.vendor in self._vendors and (each.driver == _NEWER_DRIVER) is newer]
        self._granted = own
        # Assignments are validated against all cards of the node, with their actual memory.
        self._slot_pods.set_cards(NodeCards({each.card.id: each.card for each in cards}, 1))
        await super().advertise([self._count_slots(each) for each in own], 1, await self._list_in_use())

    def _respond(self, ids: Sequence[str], key: Key | None) -> api.ContainerAllocateResponse:  # noqa: ARG002 - a plugin's
        answer = build_container_response(ids, self._granted, self._root, unit_bytes=None)
        # Omit the variable, because it would contain the full memory of the cards, but the container may use only its
        # share.
        answer.envs.pop(MEMORY_VARIABLE, None)
        return answer

    def _count_slots(self, found: FoundCard) -> FoundCard:
        card = msgspec.structs.replace(found.card, memory_bytes=self._per_card, reserved_bytes=0, enforcement="")
        return replace(found, card=card)

    async def _list_in_use(self) -> frozenset[str]:
        try:
            held = list_held_devices(await list_pod_resources(self._root), self._resource)
        except DevicePluginError:
            # If the kubelet does not respond, the advertised devices do not change.
            devices = self._devices.devices
            return frozenset(each.ID for each in devices if each.health == HEALTHY)
        return frozenset(device_id for ids in held.values() for device_id in ids)


def make_slot_plugins(
    root: Path,
    pods: NodePods,
    *,
    per_card: int,
    on_allocate: Callable[[], None],
    build_counter: Callable[[str], Callable[[str], None]],
    is_managed: Callable[[str], bool] = lambda _resource: True,
) -> list[SlotPlugin]:
    """Return a plugin for each resource in which GAS counts cards; empty if cards do not have slots."""
    labels = DIALECT.card_labels
    return [
        SlotPlugin(
            root,
            resource=resource,
            per_card=per_card,
            vendors={labels.vendor if labels else "", _SIMULATED},
            pods=SlotPods(pods, resource),
            on_allocate=on_allocate,
            count=build_counter(resource),
            is_managed=partial(is_managed, resource),
        )
        for resource in (DIALECT.resources.counts if per_card else ())
    ]
