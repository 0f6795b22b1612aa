"""Comparison of each card's capacity with the sum of the assignments that are written on its pods.

The accounting (`accelkit.inspection.accounting`) compares the amounts that the ledger counts. This module adds up the
amounts that are written in the assignments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from accelkit.inspection.inspection import NodeView
from accelkit.model.assignment import MOVING, Assignment
from accelkit.model.units import format_bytes
from accelkit.placement.charges import count_charges
from accelkit.vendors.pod_reading import CardPod


def list_overfull_cards(nodes: Iterable[NodeView], pods: Iterable[CardPod]) -> Iterator[tuple[str, str, str]]:
    """Yield the node, the ID and a message for each card whose capacity the assignments on its pods exceed.

    Shares that a pod has already left for another one (`MOVING`) do not count.
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
                message = f"card {card.id} of {node.name} has {has}, the assignments on its pods take {take}"
                yield node.name, card.id, message
