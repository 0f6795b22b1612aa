"""Advertisement of the cards and their memory unit to the kubelet and, through the inventory, to the cluster.

The kubelet allocates a number of device IDs to each container. Each ID represents one unit of memory, in the unit that
applied at the time of the allocation. The agent derives that unit from the start time of the pod and the history of
units, which is published with the cards. When the cluster's unit changes:

- A finer unit only adds IDs. It applies immediately, unless a pod that was bound in the old unit is not admitted yet.
  In the new unit, the kubelet would allocate the wrong amount of memory to that pod.
- A coarser unit removes IDs that are allocated to containers. If the devices of a pod are missing, a restarted kubelet
  does not admit the pod again. Therefore, a coarser unit applies only after the pods with finer units have terminated.
- If devices are allocated to a container of an unknown pod, or the kubelet does not respond, the unit does not
  change.
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
    """Advertiser that reports a node's cards to the kubelet and the cluster.

    Args:
        node: the Node object on which the inventory is published.
        root: the root folder of the host.
        cluster_unit_bytes: the cluster's unit of memory.
        resources: the memory resources, including the resources of dialects that are no longer served.
        pods: the pods of this node with their assignments, listed at least once.
        plugins: the device plugins that serve the cards to the kubelet.
        former_unit_bytes: the previous unit, in which the kubelet allocated devices to pods on a node without an
            inventory; None for the cluster's unit.
        clock: returns the Unix time in seconds.
    """

    def __init__(
        self,
        node: OwnNode,
        root: Path,
        *,
        cluster_unit_bytes: int,
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
        self._cluster_unit = cluster_unit_bytes
        self._resources = resources
        self._pods = pods
        self._plugins = plugins
        self._unit: int | None = None
        self._advertised: tuple[Sequence[FoundCard], int] | None = None
        self._topology: tuple[str, ...] = ()
        self._withheld: tuple[str, ...] = ()
        self._errors = ErrorReporter(log, logging.ERROR)

    @property
    def started(self) -> bool:
        """Whether cards have been advertised."""
        return self._advertised is not None

    def list_found_cards(self) -> Sequence[FoundCard]:
        """Return the advertised cards; empty before the first update."""
        return self._advertised[0] if self._advertised else ()

    def list_node_cards(self) -> NodeCards | None:
        """Return the advertised cards with their unit; None before the first update."""
        if self._advertised is None:
            return None
        found, unit = self._advertised
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
        """Advertise and publish these cards; return whether the node uses the cluster's unit.

        If the kubelet's device list would be too long in the cluster's unit, the node continues to use its current
        unit. If it does not have a unit, it does not advertise any devices. The reason is published with the inventory.

        Args:
            found: the current cards of the node.
            topology: the connections between the cards, in the format of the inventory.
            in_use: the IDs of the devices that are allocated to containers.
            uncounted: the amounts that are allocated to containers, but that no assignment contains. If this argument
                is None, the amounts are not known yet, and the published amounts do not change.
            library_problems: the problems with the vendors' libraries, in the format of the inventory.
            cdi: the kinds of CDI devices, in the format of the inventory.
            network: the node's network cards; None if the node has no network cards.
        """
        if not await self._node.read():
            return False
        if self._advertised is None:
            self._begin()
        if uncounted is None:
            uncounted = self._node.inventory.uncounted if self._node.inventory else ()
        cards, self._topology = [each.card for each in found], topology
        self._pods.set_cards(self._build_cards(found, self._unit or self._cluster_unit))
        self._drop_history()
        target, refused = self._cluster_unit, _find_oversize(cards, self._cluster_unit)
        self._log_refusal(refused)
        inventory = Inventory(
            self._cluster_unit,
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
            target = self._unit
        unit = await self._choose_unit(target)
        await self._offer(found, unit, in_use)
        waiting = self._cluster_unit if unit != self._cluster_unit else 0
        # Publish the unit only after the kubelet has received the list, because the extender then places pods in this
        # unit.
        await self._node.publish(
            msgspec.structs.replace(
                inventory,
                unit_bytes=unit,
                next_unit_bytes=waiting,
                former_units=self._history,
                withheld=self._list_withheld() or msgspec.UNSET,
            )
        )
        return unit == self._cluster_unit

    async def _offer(self, found: Sequence[FoundCard], unit: int, in_use: Collection[str]) -> None:
        """Offer the cards to the kubelet in this unit, and wait until the extender may place pods in this unit."""
        if self._advertised != (found, unit):
            log.info("advertising cards=%d unit=%s", len(found), format_unit(unit))
        for plugin in self._plugins:
            await plugin.advertise(found, unit, in_use)
        former, self._advertised, self._unit = self._unit, (found, unit), unit
        rest = self._end_unit(former) if former not in (None, unit) else 0.0
        self._pods.set_cards(self._build_cards(found, unit))
        await asyncio.sleep(rest)

    def _list_withheld(self) -> tuple[str, ...]:
        withheld = tuple(plugin.resource for plugin in self._plugins if not plugin.offered and plugin.reported)
        if withheld != self._withheld:
            log.info(
                "withheld resources=%s because the record of managed resources does not list them, "
                "or because they belong to a former dialect",
                ",".join(withheld) or "none",
            )
        self._withheld = withheld
        return withheld

    def _begin(self) -> None:
        inventory = self._node.inventory
        if inventory is not None:
            self._unit, self._history = inventory.unit_bytes, inventory.former_units
        elif not self._node.published and self._former_unit not in (None, self._cluster_unit):
            self._history = (FormerUnit(self._former_unit, int(self._clock())),)

    def _end_unit(self, unit: int) -> float:
        """Record that the kubelet no longer uses this unit; return the remaining fraction of the current second.

        Kubelets record start times in whole seconds. Pods that start in the current second are assigned to the former
        unit, so the new unit is published only after this second.
        """
        now = self._clock()
        # An administrator or NTP may have set the clock back.
        until = max((int(now), *(each.until for each in self._history)))
        self._history = (*self._history, FormerUnit(unit, until))
        return min(1.0, until + 1 - now)

    def _drop_history(self) -> None:
        """Remove from the history the units in which no pod has devices."""
        started = [pod.started_at for pod in self._pods.list_sharing() if pod.started_at is not None]
        needed = {find_former_unit(self._history, each) for each in started}
        self._history = tuple(each for each in self._history if each in needed)

    def _build_cards(self, found: Sequence[FoundCard], unit_bytes: int) -> NodeCards:
        return NodeCards({each.card.id: each.card for each in found}, unit_bytes, self._history, self._topology)

    async def _choose_unit(self, target: int) -> int:
        if target == self._unit:
            return target
        holders = await self._list_holders()
        unit = choose_unit(target, self._unit, self._pods.list_sharing(), holders)
        if unit == self._unit:
            return unit
        if self._unit is not None and len(self._history) >= MAX_FORMER_UNITS:
            log.warning("cannot change the unit: pods of this node hold devices in %d units", MAX_FORMER_UNITS + 1)
            return self._unit
        # List the pods again, because the kubelet would admit a pod in the wrong unit if the watch has not delivered
        # its Binding yet.
        await self._pods.refresh()
        return choose_unit(target, self._unit, self._pods.list_sharing(), holders)

    async def _list_holders(self) -> set[PodName] | None:
        try:
            answer = await list_pod_resources(self._root)
        except DevicePluginError as exc:
            log.warning("%s; the unit of memory does not change until the pod resources can be read", exc)
            return None
        held = (key for resource in self._resources for key in list_held_devices(answer, resource))
        return {(namespace, pod) for namespace, pod, _ in held}

    def _log_refusal(self, refused: DevicePluginError | None) -> None:
        if refused is None:
            self._errors.clear()
        else:
            self._errors.report(str(refused), f"cannot use the cluster's unit of memory: {refused}")


def choose_unit(
    target: int, present: int | None, pods: Sequence[SharingPod], holders: Collection[PodName] | None
) -> int:
    """Return the unit to advertise, in bytes.

    Args:
        target: the desired unit, which is normally the cluster's unit.
        present: the unit that the node advertises. If it is None, the unit is unknown and the result is `target`.
        pods: the pods of this node that request units of memory.
        holders: the pods to which the kubelet has allocated memory devices; None if the kubelet does not respond.
    """
    if present is None:
        return target
    unclear = holders is None or set(holders) - {(pod.namespace, pod.name) for pod in pods}
    if target == present or unclear or any(pod.started_at is None for pod in pods):
        return present
    # Devices in a finer unit than the current unit come from another release, and this agent never advertised them.
    return min((target, *(pod.unit_bytes for pod in pods if pod.unit_bytes >= present)))


def _find_oversize(cards: Sequence[Card], unit_bytes: int) -> DevicePluginError | None:
    """Return an error if the kubelet would reject the list of devices in this unit; otherwise, return None."""
    try:
        check_list(cards, unit_bytes)
    except DevicePluginError as exc:
        return exc
    return None
