"""Responses to `inspect` at the paths of other systems, in their JSON formats and their units of memory or slices.

The dialects describe the differences between the systems. Defects of these systems are not reproduced. Requests succeed
even if a pod is unallocated, and terminated pods are not counted. The response for an unknown node is a readable
message.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accelkit.ledger.holding import Holding, NodeEntry
from accelkit.model.card import Card
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.placement.charges import Charge
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import list_own_dialect_names, load_dialects, load_own_dialect
from accelkit.vendors.inspect_formats import InspectFormat

Json = dict[str, Any]


def make_foreign_inspects(names: Collection[str], created: Callable[[str], str | None]) -> dict[str, ForeignInspect]:
    """Return the handler for each path; if several systems share a path, prefer the handler for an enabled dialect.

    Args:
        names: the names of the enabled dialects.
        created: a function that returns the creation time of the pod with a given UID; None if unknown.
    """
    found: dict[str, ForeignInspect] = {}
    for dialect in (*map(load_own_dialect, list_own_dialect_names()), *load_dialects(names)):
        if dialect.inspect is not None and (dialect.name in names or dialect.extender_path not in found):
            found[dialect.extender_path] = ForeignInspect(dialect, dialect.inspect, created)
    return found


@dataclass(frozen=True, slots=True)
class _Device:
    number: int
    total: int
    used: int
    pods: Sequence[tuple[Holding, int]]


class ForeignInspect:
    """Responses in the JSON format of one system.

    Args:
        dialect: the dialect of the system.
        format_: the JSON format of the system.
        created: a function that returns the creation time of the pod with a given UID; None if unknown.
    """

    def __init__(self, dialect: Dialect, format_: InspectFormat, created: Callable[[str], str | None]) -> None:
        self._slices = dialect.resources.per_card if dialect.resources.slices else None
        self._format = format_
        self._created = created

    def view_nodes(self, entries: Iterable[NodeEntry]) -> object:
        """Return the response for all nodes with cards."""
        nodes = [self._view(entry) for entry in entries if entry.inventory is not None]
        return nodes if self._format.bare else {"nodes": nodes}

    def view_node(self, entry: NodeEntry) -> object:
        """Return the response for one node with cards."""
        node = self._view(entry)
        return node if self._format.bare else {"nodes": [node]}

    def describe_unknown_node(self, name: str) -> str:
        """Return the message for a node without cards."""
        return self._format.unknown_node.format(node=name)

    def _view(self, entry: NodeEntry) -> Json:
        devices = list(_in_units(entry) if self._slices is None else _in_slices(entry, self._slices))
        total, used = sum(device.total for device in devices), sum(device.used for device in devices)
        cards: object = [self._view_device(device) for device in devices]
        if self._format.by_number:
            cards = {str(device.number): self._view_device(device) for device in devices}
        return {"name": entry.name, **self._amounts(total, used), self._format.devices: cards}

    def _view_device(self, device: _Device) -> Json:
        identity = {} if self._format.by_number else {"id": device.number}
        pods = [self._view_pod(held, amount) for held, amount in device.pods]
        return {**identity, **self._format.device, **self._amounts(device.total, device.used), "pods": pods}

    def _view_pod(self, held: Holding, amount: int) -> Json:
        view: Json = {"name": held.pod.name, "namespace": held.pod.namespace}
        if self._format.uid:
            view["uid"] = held.pod.uid
        if self._format.created:
            view[self._format.created] = self._created(held.pod.uid) or ""
        return {**view, f"used{self._format.amount}": amount}

    def _amounts(self, total: int, used: int) -> Mapping[str, int]:
        word = self._format.amount
        left = {f"available{word}": total - used} if self._format.available else {}
        return {f"total{word}": total, f"used{word}": used, **left}


def _in_units(entry: NodeEntry) -> Iterator[_Device]:
    unit = entry.inventory.unit_bytes if entry.inventory else 1
    for number, card, pods in _charged_cards(entry):
        used = sum(charge.memory_bytes for _, charge in pods)
        amounts = [(held, charge.memory_bytes // unit) for held, charge in pods]
        yield _Device(number, card.capacity_bytes // unit, used // unit, amounts)


def _in_slices(entry: NodeEntry, per_card: int) -> Iterator[_Device]:
    for number, _, pods in _charged_cards(entry):
        counts = [(held, round(charge.compute * per_card / WHOLE_COMPUTE)) for held, charge in pods]
        yield _Device(number, per_card, sum(count for _, count in counts), counts)


def _charged_cards(entry: NodeEntry) -> Iterator[tuple[int, Card, Sequence[tuple[Holding, Charge]]]]:
    """Yield each card with its index in other systems and the amounts that pods use on the card."""
    holdings = sorted(entry.holdings.values(), key=lambda held: (held.pod.namespace, held.pod.name))
    for place, card in enumerate(entry.list_cards()):
        pods = [(held, held.charges[card.id]) for held in holdings if card.id in held.charges]
        yield place if card.number is None else card.number, card, pods
