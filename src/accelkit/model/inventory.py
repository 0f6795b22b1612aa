"""Inventory of a node: the cards that its agent publishes in the annotation `accelkit.io/inventory`.

The ledger reads the cards from the annotation. For nodes without the annotation, the cards can be read from labels that
another system sets. If the annotation is unreadable or has a newer version, the cards of the node are unknown, but the
node may have cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from accelkit.decoding import decode_version
from accelkit.errors import InventoryError
from accelkit.model.assignment import Share
from accelkit.model.card import MAX_CARD_ID, MAX_MEMORY_FACTOR, Card
from accelkit.model.nic import Network
from accelkit.model.units import MAX_AMOUNT
from accelkit.texts import shorten

INVENTORY_VERSION: Final = 1
MAX_INVENTORY_BYTES: Final = 64 * 1024
MAX_FORMER_UNITS: Final = 8


class FormerUnit(msgspec.Struct, frozen=True):
    """A previous unit of memory of a node. Pods that started by `until` (Unix seconds) got devices in this unit."""

    unit_bytes: int
    until: int


class Inventory(msgspec.Struct, frozen=True):
    """A node's cards and the unit in which its agent advertises memory.

    Attributes:
        unit_bytes: the size of one `accelkit.io/memory` on this node, in bytes.
        cards: the cards, in the order of the node's numbers.
        next_unit_bytes: the unit that the agent is configured to advertise but cannot advertise yet; 0 if there is
            none.
        problem: the reason why the agent cannot advertise that unit, as a sentence; empty if it only waits until pods
            terminate.
        topology: the proximity of each pair of cards: row i, column j is the letter of an
            `accelkit.model.topology.Nearness`; empty if the topology was not detected.
        uncounted: the amounts that are allocated to containers beyond the assignments of their pods, if the assignments
            cannot be corrected.
        former_units: the previous units in which pods on the node got devices, with the newest last.
        library_problems: sentences about the libraries of the cards' vendors that cannot be used on the node, with the
            reasons.
        cdi: the sorted kinds of the CDI devices through which containers get their cards; empty if device nodes are
            used.
        network: the node's network cards; omitted if there are none.
        withheld: the resources that the agent does not offer to new pods; omitted if there are none. Either the
            cluster's record of managed resources does not list them, or they belong to a former dialect and their
            devices are still allocated to containers.
    """

    unit_bytes: int
    cards: tuple[Card, ...]
    version: int = INVENTORY_VERSION
    next_unit_bytes: int = 0
    problem: str = ""
    topology: tuple[str, ...] = ()
    uncounted: tuple[Share, ...] = ()
    former_units: tuple[FormerUnit, ...] = ()
    library_problems: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()
    network: Network | msgspec.UnsetType = msgspec.UNSET
    withheld: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET

    @property
    def configured_unit_bytes(self) -> int:
        """The unit that the agent is configured to advertise."""
        return self.next_unit_bytes or self.unit_bytes


def find_unit(unit_bytes: int, former_units: Sequence[FormerUnit], started_at: str | None) -> int:
    """Return a pod's memory unit in bytes: the unit of the node when the kubelet allocated the pod's devices.

    Args:
        unit_bytes: the node's current unit.
        former_units: the previous units of the node, with the newest last.
        started_at: the start time in the pod's status; None if the kubelet has not set it yet.
    """
    former = None if started_at is None else find_former_unit(former_units, started_at)
    return unit_bytes if former is None else former.unit_bytes


def find_former_unit(former_units: Sequence[FormerUnit], started_at: str) -> FormerUnit | None:
    """Return the former unit in which a pod with this start time got devices; None for the current unit."""
    started = _read_seconds(started_at) if former_units else None
    return None if started is None else next((each for each in former_units if started <= each.until), None)


def _read_seconds(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return None


_inventory = msgspec.json.Decoder(Inventory)


def encode_inventory(inventory: Inventory) -> str:
    """Return the value of the annotation.

    Raises:
        InventoryError: the value is longer than 64 KiB, or cannot be decoded again.
    """
    text = msgspec.json.encode(inventory).decode()
    decode_inventory(text)
    return text


def decode_inventory(text: str) -> Inventory:
    """Return the inventory from the value of the annotation.

    Raises:
        InventoryError: the value is too long, is malformed, has a different version, or contains a field that is out of
            range.
    """
    if (length := len(text.encode())) > MAX_INVENTORY_BYTES:
        raise InventoryError(f"inventory has {length} bytes, more than the limit of {MAX_INVENTORY_BYTES}")
    try:
        version = decode_version(text)
        if version != INVENTORY_VERSION:
            raise InventoryError(
                f"inventory has version {version}, but this program supports version {INVENTORY_VERSION}",
                next_step="upgrade the extender to the node agent's version",
            )
        inventory = _inventory.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise InventoryError(f"cannot read the inventory: {shorten(str(exc))}") from exc
    _check(inventory)
    return inventory


def read_inventory(text: str | None) -> Inventory | None:
    """Return the inventory from the value of a node's annotation; None if the value is missing or unreadable."""
    try:
        return None if text is None else decode_inventory(text)
    except InventoryError:
        return None


def _check(inventory: Inventory) -> None:
    if not 0 < inventory.unit_bytes <= MAX_AMOUNT:
        raise InventoryError(f"inventory has an invalid unit: {inventory.unit_bytes} bytes")
    if not 0 <= inventory.next_unit_bytes <= MAX_AMOUNT:
        raise InventoryError(f"inventory has an invalid next unit: {inventory.next_unit_bytes} bytes")
    _check_history(inventory.former_units)
    card_ids = set[str]()
    for card in inventory.cards:
        if not card.id or len(card.id) > MAX_CARD_ID or "::" in card.id:
            raise InventoryError(f"inventory has an invalid card ID: {shorten(card.id)!r}")
        if card.id in card_ids:
            raise InventoryError(f"inventory contains card {shorten(card.id)} twice")
        card_ids.add(card.id)
        _check_memory(card)
    for share in inventory.uncounted:
        if not 0 <= share.memory_bytes <= MAX_AMOUNT or not 0 <= share.compute <= MAX_AMOUNT:
            raise InventoryError(f"inventory has an invalid uncounted amount for card {shorten(share.card)}")


def _check_memory(card: Card) -> None:
    for amount in (card.reserved_bytes, card.memory_bytes):
        if amount is not None and not 0 <= amount <= MAX_AMOUNT:
            raise InventoryError(f"inventory has an invalid amount of memory for card {shorten(card.id)}")
    if not 1 <= card.memory_factor <= MAX_MEMORY_FACTOR or card.capacity_bytes > MAX_AMOUNT:
        raise InventoryError(f"inventory has an invalid memory factor for card {shorten(card.id)}")


def _check_history(former_units: Sequence[FormerUnit]) -> None:
    if len(former_units) > MAX_FORMER_UNITS:
        raise InventoryError(
            f"inventory has {len(former_units)} former units, more than the limit of {MAX_FORMER_UNITS}"
        )
    ends = [each.until for each in former_units]
    if ends != sorted(ends) or not all(0 < each.unit_bytes <= MAX_AMOUNT for each in former_units):
        raise InventoryError("inventory has an invalid list of former units")
