"""Effects of a change to the memory unit of a cluster, which are determined before the change is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelkit.errors import DevicePluginError, QuantityError
from accelkit.install.workloads import Workload, list_workloads_requesting
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES
from accelkit.model.inventory import Inventory, read_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.pod import Node
from accelkit.model.units import format_bytes, format_unit, parse_quantity
from accelkit.node.device_plugin.device_list import check_list


@dataclass(frozen=True)
class UnitChange:
    """The effects of a change to a different unit.

    Attributes:
        before: the current units of the node agents, in bytes, sorted; empty if no node is shared.
        refusals: for each node, the reason why its kubelet would reject the device list; only nodes with a reason.
        finer: the nodes that apply the new unit immediately, because it is smaller, sorted.
        waiting: the nodes that apply the new unit after the pods that share their cards have terminated, sorted.
        workloads: the workloads whose requests would mean a different amount; empty if the unit does not change.
    """

    before: Sequence[int]
    refusals: Mapping[str, str]
    finer: Sequence[str]
    waiting: Sequence[str]
    workloads: Sequence[Workload]


async def plan_unit_change(
    api: ApiClient, unit_bytes: int, resources: Sequence[str], *, former_unit_bytes: int | None = None
) -> UnitChange:
    """Return the effects of a change to `unit_bytes`, based on the inventories of the nodes.

    Args:
        api: an open client.
        unit_bytes: the new unit.
        resources: the extended resources that represent memory.
        former_unit_bytes: the unit of an adopted system, or None. It is used if no node has published an inventory.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    nodes, _ = await list_all(api, NODES, Node)
    inventories = {
        node.metadata.name: inventory
        for node in nodes
        if (inventory := read_inventory(node.find_annotation(INVENTORY_ANNOTATION)))
    }
    current = {inventory.configured_unit_bytes for inventory in inventories.values()}
    if not current and former_unit_bytes is not None:
        current = {former_unit_bytes}
    refusals = {
        name: text
        for name, each in sorted(inventories.items())
        if (text := _find_refusal(each, unit_bytes)) is not None
    }
    return UnitChange(
        before=sorted(current),
        refusals=refusals,
        finer=sorted(name for name, each in inventories.items() if unit_bytes < each.unit_bytes),
        waiting=sorted(name for name, each in inventories.items() if unit_bytes > each.unit_bytes),
        workloads=await list_workloads_requesting(api, resources) if current - {unit_bytes} else (),
    )


def describe_request(workload: Workload, before: Sequence[int], unit_bytes: int) -> str:
    """Return a sentence that describes a workload's memory request in the previous units and in the new unit."""
    parts = [
        f"{container} requests {amount}: {' or '.join(_format_amount(amount, unit) for unit in before)} until now, "
        f"{_format_amount(amount, unit_bytes)} in units of {format_unit(unit_bytes)}"
        for container, amount in workload.requests
    ]
    return f"{workload.kind} {workload.namespace}/{workload.name}: {'; '.join(parts)}"


def _format_amount(units: str, unit_bytes: int) -> str:
    try:
        return format_bytes(parse_quantity(units) * unit_bytes)
    except QuantityError:
        return f"{units} units of {format_unit(unit_bytes)}"


def _find_refusal(inventory: Inventory, unit_bytes: int) -> str | None:
    try:
        check_list(inventory.cards, unit_bytes)
    except DevicePluginError as exc:
        return str(exc)
    return None
