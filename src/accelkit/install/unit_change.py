"""What a change of the memory unit means for a cluster, found out before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelkit.errors import DevicePluginError, InventoryError, QuantityError
from accelkit.install.workloads import Workload, list_workloads_requesting
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES
from accelkit.model.inventory import Inventory, decode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.pod import Node
from accelkit.model.units import format_bytes, format_unit, parse_quantity
from accelkit.node.device_plugin.device_list import check_list


@dataclass(frozen=True)
class UnitChange:
    """What the change to a unit means.

    Attributes:
        before: the units that node agents were told until now, in bytes, sorted; empty where no node is shared.
        refusals: by node, why its kubelet would not take the list of devices.
        finer: nodes that take the unit over at once, sorted.
        waiting: nodes that take it over when their sharing pods are gone, sorted.
        workloads: whose requests change their meaning; empty where the unit stays.
    """

    before: Sequence[int]
    refusals: Mapping[str, str]
    finer: Sequence[str]
    waiting: Sequence[str]
    workloads: Sequence[Workload]


async def plan_unit_change(
    api: ApiClient, unit_bytes: int, resources: Sequence[str], *, former_unit_bytes: int | None = None
) -> UnitChange:
    """Find out what a change to `unit_bytes` means, from the inventories of nodes that publish one.

    Args:
        api: an open client.
        unit_bytes: the unit that is wanted.
        resources: the extended resources of memory.
        former_unit_bytes: the unit of another system that is taken over, which counts as long as no node publishes an
            inventory; None where there is none.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    nodes, _ = await list_all(api, NODES, Node)
    inventories = {node.metadata.name: inventory for node in nodes if (inventory := _read_inventory(node))}
    told = {inventory.told_unit_bytes for inventory in inventories.values()}
    if not told and former_unit_bytes is not None:
        told = {former_unit_bytes}
    refusals = {
        name: text
        for name, each in sorted(inventories.items())
        if (text := _find_refusal(each, unit_bytes)) is not None
    }
    return UnitChange(
        before=sorted(told),
        refusals=refusals,
        finer=sorted(name for name, each in inventories.items() if unit_bytes < each.unit_bytes),
        waiting=sorted(name for name, each in inventories.items() if unit_bytes > each.unit_bytes),
        workloads=await list_workloads_requesting(api, resources) if told - {unit_bytes} else (),
    )


def describe_request(workload: Workload, before: Sequence[int], unit_bytes: int) -> str:
    """Say what a workload asks for, before and afterwards: `Deployment d/web: c asks for 8, 8 GiB until now, then…`."""
    parts = [
        f"{container} asks for {amount}: {' or '.join(_format_amount(amount, unit) for unit in before)} until now, "
        f"{_format_amount(amount, unit_bytes)} in units of {format_unit(unit_bytes)}"
        for container, amount in workload.requests
    ]
    return f"{workload.kind} {workload.namespace}/{workload.name}: {'; '.join(parts)}"


def _format_amount(units: str, unit_bytes: int) -> str:
    try:
        return format_bytes(parse_quantity(units) * unit_bytes)
    except QuantityError:
        return f"{units} units of {format_unit(unit_bytes)}"


def _read_inventory(node: Node) -> Inventory | None:
    try:
        return decode_inventory(node.find_annotation(INVENTORY_ANNOTATION) or "")
    except InventoryError:
        return None


def _find_refusal(inventory: Inventory, unit_bytes: int) -> str | None:
    try:
        check_list(inventory.cards, unit_bytes)
    except DevicePluginError as exc:
        return str(exc)
    return None
