"""Shows the cards and the unit of their memory to the kubelet, and publishes them to the cluster.

What a container holds at its kubelet is a number of device IDs, each worth the unit of the day it was allocated. The
pod's start tells that unit, with the history of units that is published with the cards. So, when the cluster's unit
changes:

- A finer unit only adds IDs. It applies at once, except while a pod of the old unit is between its Binding and its
  admission: the kubelet would ask for its number of devices in the new unit.
- A coarser unit takes IDs away that containers hold, and a kubelet does not admit a pod again whose devices are gone.
  So it waits for the pods of finer units.
- Where a container holds devices whose pod is not known, or the kubelet cannot be asked, the unit stays.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec

from accelkit.errors import DevicePluginError
from accelkit.logs import ErrorReporter
from accelkit.model.assignment import Share
from accelkit.model.card import Card
from accelkit.model.inventory import MAX_FORMER_UNITS, FormerUnit, Inventory, find_former_unit
from accelkit.model.nic import Network
from accelkit.model.units import format_unit
from accelkit.node.assigned_pod import SharingPod
from accelkit.node.device_plugin.device_list import check_list
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.discovery import FoundCard
from accelkit.node.kubelet import list_held_devices, list_pod_resources
from accelkit.node.node_cards import NodeCards
from accelkit.node.own_node import OwnNode
from accelkit.node.pods import NodePods

log = logging.getLogger(__name__)

PodName = tuple[str, str]  # namespace, name


class Advertising:
    """The cards of one node as others see them.

    Args:
        node: where the cards are published.
        root: the host's root folder.
        told_unit_bytes: the cluster's unit of memory.
        resources: those of memory, also of dialects that are not served any more.
        pods: this node's pods with their assignments, listed at least once.
        plugins: what serves the cards to the kubelet.
        former_unit_bytes: where the node never had an inventory, the unit in which pods have got devices before; None
            for the cluster's.
        clock: Unix time, in seconds.
    """

    def __init__(
        self,
        node: OwnNode,
        root: Path,
        *,
        told_unit_bytes: int,
        resources: Collection[str],
        pods: NodePods,
        plugins: Sequence[DevicePlugin],
        former_unit_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._former_unit = former_unit_bytes
        self._clock = clock
        self._history: tuple[FormerUnit, ...] = ()
        self._node = node
        self._root = root
        self._told = told_unit_bytes
        self._resources = resources
        self._pods = pods
        self._plugins = plugins
        self._unit: int | None = None
        self._shown: tuple[Sequence[FoundCard], int] | None = None
        self._topology: tuple[str, ...] = ()
        self._withheld: tuple[str, ...] = ()
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
        return self._build_cards(found, unit)

    async def update(
        self,
        found: Sequence[FoundCard],
        *,
        topology: tuple[str, ...] = (),
        in_use: Collection[str] = (),
        uncounted: tuple[Share, ...] | None = (),
        library_problems: tuple[str, ...] = (),
        cdi: tuple[str, ...] = (),
        network: Network | None = None,
    ) -> bool:
        """Show and publish these cards; False where the unit is not yet the one that was told.

        A unit in which the kubelet's list would be too long changes nothing: the node goes on with the unit it has, or
        without devices where it has none. The reason is published with the inventory.

        Args:
            found: the node's cards as they are now.
            topology: how near they are to each other, as the inventory has it.
            in_use: the device IDs that containers hold.
            uncounted: what containers hold and no assignment says; None where that is not known yet, so that what was
                published before stays.
            library_problems: what is wrong with the vendors' libraries, as the inventory has it.
            cdi: kinds of CDI devices, as the inventory has them.
            network: the node's network cards; None for none.
        """
        if not await self._node.read():
            return False
        if self._shown is None:
            self._begin()
        if uncounted is None:
            uncounted = self._node.inventory.uncounted if self._node.inventory else ()
        cards, self._topology = [each.card for each in found], topology
        self._pods.learn_cards(self._build_cards(found, self._unit or self._told))
        self._drop_history()
        told, refused = self._told, _find_oversize(cards, self._told)
        self._log_refusal(refused)
        inventory = Inventory(
            self._told,
            tuple(cards),
            problem="" if refused is None else str(refused),
            topology=topology,
            uncounted=uncounted,
            library_problems=library_problems,
            cdi=cdi,
            network=msgspec.UNSET if network is None else network,
        )
        if refused is not None:
            if self._unit is None or _find_oversize(cards, self._unit) is not None:
                await self._node.publish(msgspec.structs.replace(inventory, former_units=self._history))
                return False
            told = self._unit
        unit = await self._choose_unit(told)
        if self._shown != (found, unit):
            log.info("showing %d cards in units of %s", len(found), format_unit(unit))
        for plugin in self._plugins:
            await plugin.show(found, unit, in_use)
        withheld = self._list_withheld()
        former, self._shown, self._unit = self._unit, (found, unit), unit
        rest = self._end_unit(former) if former not in (None, unit) else 0.0
        self._pods.learn_cards(self._build_cards(found, unit))
        await asyncio.sleep(rest)
        waiting = self._told if unit != self._told else 0
        # After the kubelet knows: the extender places pods of a unit as soon as it is published.
        await self._node.publish(
            msgspec.structs.replace(
                inventory,
                unit_bytes=unit,
                next_unit_bytes=waiting,
                former_units=self._history,
                withheld=withheld or msgspec.UNSET,
            )
        )
        return unit == self._told

    def _list_withheld(self) -> tuple[str, ...]:
        withheld = tuple(plugin.resource for plugin in self._plugins if not plugin.offered and plugin.reported)
        if withheld != self._withheld:
            log.info(
                "withholding resources=%s: not all kube-schedulers are known to call the extender for them, "
                "or they are of a former dialect",
                ",".join(withheld) or "none",
            )
        self._withheld = withheld
        return withheld

    def _begin(self) -> None:
        inventory = self._node.inventory
        if inventory is not None:
            self._unit, self._history = inventory.unit_bytes, inventory.former_units
        elif not self._node.published and self._former_unit not in (None, self._told):
            self._history = (FormerUnit(self._former_unit, int(self._clock())),)

    def _end_unit(self, unit: int) -> float:
        """Note that the kubelet has been told of another unit than this one; return the rest of the running second.

        Kubelets write starts in whole seconds. What starts in this one counts as given the former unit, so the next one
        is not published before the second is over.
        """
        now = self._clock()
        # A clock may have been put back.
        until = max((int(now), *(each.until for each in self._history)))
        self._history = (*self._history, FormerUnit(unit, until))
        return min(1.0, until + 1 - now)

    def _drop_history(self) -> None:
        """Forget the units in which no pod holds devices any more."""
        started = [pod.started_at for pod in self._pods.list_sharing() if pod.started_at is not None]
        needed = {find_former_unit(self._history, each) for each in started}
        self._history = tuple(each for each in self._history if each in needed)

    def _build_cards(self, found: Sequence[FoundCard], unit_bytes: int) -> NodeCards:
        return NodeCards({each.card.id: each.card for each in found}, unit_bytes, self._history, self._topology)

    async def _choose_unit(self, told: int) -> int:
        if told == self._unit:
            return told
        holders = await self._list_holders()
        unit = choose_unit(told, self._unit, self._pods.list_sharing(), holders)
        if unit == self._unit:
            return unit
        if self._unit is not None and len(self._history) >= MAX_FORMER_UNITS:
            log.warning("pods of this node hold devices in %d units; it keeps its present one", MAX_FORMER_UNITS + 1)
            return self._unit
        # A Binding that the watch has not shown would be admitted in the wrong unit.
        await self._pods.refresh()
        return choose_unit(told, self._unit, self._pods.list_sharing(), holders)

    async def _list_holders(self) -> set[PodName] | None:
        try:
            answer = await list_pod_resources(self._root)
        except DevicePluginError as exc:
            log.warning("%s; the unit of memory stays until they can", exc)
            return None
        held = (key for resource in self._resources for key in list_held_devices(answer, resource))
        return {(namespace, pod) for namespace, pod, _ in held}

    def _log_refusal(self, refused: DevicePluginError | None) -> None:
        if refused is None:
            self._errors.clear()
        else:
            self._errors.report(str(refused), f"the unit of memory is not taken over: {refused}")


def choose_unit(told: int, present: int | None, pods: Sequence[SharingPod], holders: Collection[PodName] | None) -> int:
    """Return the unit to advertise now, in bytes.

    Args:
        told: the cluster's unit.
        present: what the node advertises; None where that is not known, and so the cluster's unit is taken.
        pods: this node's pods that ask for units of memory.
        holders: the pods that hold devices of memory, as the kubelet says; None where it does not.
    """
    if present is None:
        return told
    unclear = holders is None or set(holders) - {(pod.namespace, pod.name) for pod in pods}
    if told == present or unclear or any(pod.started_at is None for pod in pods):
        return present
    # What pods were given in a finer unit by another release is in no list of ours.
    return min((told, *(pod.unit_bytes for pod in pods if pod.unit_bytes >= present)))


def _find_oversize(cards: Sequence[Card], unit_bytes: int) -> DevicePluginError | None:
    """Return why the kubelet would not take the list of devices in this unit; None where it would."""
    try:
        check_list(cards, unit_bytes)
    except DevicePluginError as exc:
        return exc
    return None
