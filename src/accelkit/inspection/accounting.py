"""Accounting checks, which find cards with shares that exceed the card's memory, and cards that are nearly full."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from accelkit.inspection.inspection import CardView, InspectedNode, Inspection
from accelkit.model.units import format_bytes


class FindingKind(StrEnum):
    """Kinds of accounting findings."""

    OVER_CAPACITY = "over_capacity"
    SHARED_WHOLE_CARD = "shared_whole_card"
    UNKNOWN_CARD = "unknown_card"
    UNASSIGNED_POD = "unassigned_pod"
    UNKNOWN_INVENTORY = "unknown_inventory"
    LOW_FREE = "low_free"


class AccountingFinding(msgspec.Struct, frozen=True):
    """An accounting problem on a card, with the card's amounts."""

    node: str
    card: str
    kind: FindingKind
    message: str
    capacity_bytes: int
    used_bytes: int
    free_bytes: int


def check(inspection: Inspection, *, min_free_bytes: int = 0) -> list[AccountingFinding]:
    """Return the accounting problems in a cluster, ordered by node and card.

    Args:
        inspection: the state of the cluster according to the ledger or the API server.
        min_free_bytes: the minimum free memory of a card. A card with less free memory results in a finding. The value
            0 disables this check.
    """
    findings: list[AccountingFinding] = []
    for node in inspection.nodes:
        if node.state == "unknown":
            message = f"the cards of {node.name} are unknown: {node.problem}"
            findings.append(AccountingFinding(node.name, "", FindingKind.UNKNOWN_INVENTORY, message, 0, 0, 0))
        for card in node.cards:
            findings += _check_card(node, card, min_free_bytes)
        for pod in node.unassigned:
            name = f"{pod.namespace}/{pod.pod}"
            message = f"pod {name} holds cards of {node.name}, but their IDs are unknown: {pod.problem}"
            findings.append(
                AccountingFinding(node.name, "", FindingKind.UNASSIGNED_POD, message, 0, pod.memory_bytes, 0)
            )
    return findings


def _check_card(node: InspectedNode, card: CardView, min_free_bytes: int) -> list[AccountingFinding]:
    figures = (card.capacity_bytes, card.used_bytes, card.free_bytes)
    where = f"card {card.id} of {node.name}"
    if not card.known:
        message = f"{where} is held by pods, but the node's inventory does not list it"
        return [AccountingFinding(node.name, card.id, FindingKind.UNKNOWN_CARD, message, *figures)]
    found: list[AccountingFinding] = []
    if card.memory_bytes is None:
        # The memory size is unknown, so the check is not possible.
        pass
    elif card.used_bytes > card.capacity_bytes:
        message = f"{where} has {format_bytes(card.capacity_bytes)}, but its shares use {format_bytes(card.used_bytes)}"
        found.append(AccountingFinding(node.name, card.id, FindingKind.OVER_CAPACITY, message, *figures))
    elif card.free_bytes < min_free_bytes:
        message = f"{where} has {format_bytes(card.free_bytes)} free, less than {format_bytes(min_free_bytes)}"
        found.append(AccountingFinding(node.name, card.id, FindingKind.LOW_FREE, message, *figures))
    if card.whole and len({share.uid for share in card.shares}) > 1:
        message = f"{where} is assigned to one pod as a whole card, but other pods also hold shares of it"
        found.append(AccountingFinding(node.name, card.id, FindingKind.SHARED_WHOLE_CARD, message, *figures))
    return found
