"""Comparison of each card's capacity with the sum of its pods' assignments.

The accounting (`accelkit.inspection.accounting`) compares the amounts in the ledger. This module compares the sum of
the amounts in the assignments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from accelkit.inspection.inspection import InspectedNode
from accelkit.model.assignment import MOVING, Assignment
from accelkit.model.units import format_bytes
from accelkit.placement.charges import count_charges
from accelkit.vendors.pod_reading import CardPod


def list_overfull_cards(nodes: Iterable[InspectedNode], pods: Iterable[CardPod]) -> Iterator[tuple[str, str, str]]:
    """Yield the node, the card's ID and a message for each card whose capacity is exceeded by the assignments.

    Shares that will be charged to another pod (`MOVING`) are not counted.
    """
    written: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        if isinstance(pod.assignment, Assignment):
            held = {name: shares for name, shares in pod.assignment.containers.items() if name != MOVING}
            for name, charge in count_charges(pod.order, held).items():
                written[pod.node, name] += charge.memory_bytes
    for node in nodes:
        for card in node.cards:
            amount = written[node.name, card.id]
            if card.known and card.memory_bytes is not None and amount > card.capacity_bytes:
                has, take = format_bytes(card.capacity_bytes), format_bytes(amount)
                message = f"card {card.id} of {node.name} has {has}, but the assignments of its pods use {take}"
                yield node.name, card.id, message
