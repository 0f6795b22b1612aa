"""Shows the cards and the unit of their memory to the kubelet, and publishes them to the cluster.

What a container holds at its kubelet is a number of device IDs, each worth the unit of the day it was allocated. So,
when the cluster's unit changes:

- A finer unit only adds IDs. It applies at once, except while a pod of the old unit is between its Binding and its
  admission: the kubelet would ask for its number of devices in the new unit.
- A coarser unit takes IDs away that containers hold, and a kubelet does not admit a pod again whose devices are gone.
  So it waits for the pods of finer units.
- Where a container holds devices and no assignment says how much that is, or the kubelet cannot be asked, the unit
  stays.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.logs import ErrorReporter
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.units import format_unit
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin.device_list import check_list
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.discovery import FoundCard
from accelkit.node.kubelet import ObservedAllocations, list_pod_resources
from accelkit.node.own_node import OwnNode
from accelkit.node.pods import NodePods
from accelkit.node.reconciliation.observed_assignment import NodeCards

log = logging.getLogger(__name__)

PodName = tuple[str, str]  # namespace, name


class Advertising:
    """The cards of one node as others see them.

    Args:
        node: where the cards are published.
        root: the host's root folder.
        told_unit_bytes: the cluster's unit of memory.
        resource: the extended resource of memory.
        pods: this node's pods with their assignments, listed at least once.
        plugins: what serves the cards to the kubelet.
    """

    def __init__(
        self,
        node: OwnNode,
        root: Path,
        *,
        told_unit_bytes: int,
        resource: str,
        pods: NodePods,
        plugins: Sequence[DevicePlugin],
    ) -> None:
        self._node = node
        self._root = root
        self._told = told_unit_bytes
        self._resource = resource
        self._pods = pods
        self._plugins = plugins
        self._unit: int | None = None
        self._shown: tuple[Sequence[FoundCard], int] | None = None
        self._errors = ErrorReporter(log, logging.ERROR)

    @property
    def shown(self) -> bool:
        """Whether the plugins have anything to tell the kubelet."""
        return self._shown is not None

    def list_found_cards(self) -> Sequence[FoundCard]:
        """Return the cards that are shown, none before any are."""
        return self._shown[0] if self._shown else ()

    def list_node_cards(self) -> NodeCards | None:
        """Return the cards as they are shown, None before they are."""
        if self._shown is None:
            return None
        found, unit = self._shown
        return NodeCards({each.card.id: each.card for each in found}, unit)

    async def update(
        self, found: Sequence[FoundCard], *, topology: tuple[str, ...] = (), in_use: Collection[str] = ()
    ) -> bool:
        """Show and publish these cards; False where the unit is not yet the one that was told.

        A unit in which the kubelet's list would be too long changes nothing: the node goes on with the unit it has, or
        without devices where it has none. The reason is published with the inventory.

        Args:
            found: the node's cards as they are now.
            topology: how near they are to each other, as the inventory has it.
            in_use: the device IDs that containers hold.
        """
        if not await self._node.read():
            return False
        if self._shown is None:
            self._unit = self._node.inventory.unit_bytes if self._node.inventory else None
        cards = [each.card for each in found]
        told, refused = self._told, _find_oversize(cards, self._told)
        self._log_refusal(refused)
        problem = "" if refused is None else str(refused)
        if refused is not None:
            if self._unit is None or _find_oversize(cards, self._unit) is not None:
                await self._node.publish(Inventory(self._told, tuple(cards), problem=problem, topology=topology))
                return False
            told = self._unit
        unit = await self._choose_unit(told)
        if self._shown != (found, unit):
            log.info("showing %d cards in units of %s", len(found), format_unit(unit))
        for plugin in self._plugins:
            await plugin.show(found, unit, in_use)
        self._shown, self._unit = (found, unit), unit
        waiting = self._told if unit != self._told else 0
        # After the kubelet knows: the extender places pods of a unit as soon as it is published.
        inventory = Inventory(unit, tuple(cards), next_unit_bytes=waiting, problem=problem, topology=topology)
        await self._node.publish(inventory)
        return unit == self._told

    async def _choose_unit(self, told: int) -> int:
        if told == self._unit:
            return told
        holders = await self._list_holders()
        unit = choose_unit(told, self._unit, self._pods.list_assigned(), holders)
        if unit == self._unit:
            return unit
        # A Binding that the watch has not shown would be admitted in the wrong unit.
        await self._pods.refresh()
        return choose_unit(told, self._unit, self._pods.list_assigned(), holders)

    async def _list_holders(self) -> set[PodName] | None:
        try:
            answer = await list_pod_resources(self._root)
        except DevicePluginError as exc:
            log.warning("%s; the unit of memory stays until they can", exc)
            return None
        return {(namespace, pod) for namespace, pod, _ in ObservedAllocations(answer, self._resource).containers}

    def _log_refusal(self, refused: DevicePluginError | None) -> None:
        if refused is None:
            self._errors.clear()
        else:
            self._errors.report(str(refused), f"the unit of memory is not taken over: {refused}")


def choose_unit(
    told: int, present: int | None, pods: Sequence[AssignedPod], holders: Collection[PodName] | None
) -> int:
    """Return the unit to advertise now, in bytes.

    Args:
        told: the cluster's unit.
        present: what the node advertises; None where that is not known.
        pods: this node's pods with their assignments.
        holders: the pods that hold devices of memory, as the kubelet says; None where it does not.
    """
    sharing = [pod for pod in pods if pod.unit_bytes]
    finest = min((unit for pod in sharing for unit in pod.unit_bytes), default=told)
    if present is None:
        present = finest
    unclear = holders is None or set(holders) - {(pod.namespace, pod.name) for pod in sharing}
    if told == present or unclear or any(not pod.admitted for pod in sharing):
        return present
    return min(told, finest)


def _find_oversize(cards: Sequence[Card], unit_bytes: int) -> DevicePluginError | None:
    """Return why the kubelet would not take the list of devices in this unit; None where it would."""
    try:
        check_list(cards, unit_bytes)
    except DevicePluginError as exc:
        return exc
    return None
