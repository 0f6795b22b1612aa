"""Amounts of a pod that count against its namespace's quota: memory and compute of shares, and the number of cards.

A whole card counts as one card regardless of its memory, so the amounts of a pod are known before its cards are chosen.
Cards that a container requests by number are counted in the same way, because such a request may not contain
amounts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from accelkit.model.request import Kind, PodRequest
from accelkit.placement.charges import Charge


class QuotaAmounts(msgspec.Struct, frozen=True, gc=False):
    """Used or requested amounts: memory and compute of shared cards, and the number of other cards."""

    memory_bytes: int = 0
    cards: int = 0
    compute: int = 0

    def plus(self, other: QuotaAmounts, sign: int = 1) -> QuotaAmounts:
        """Return the sum of these amounts and `other`, or the difference if `sign` is -1."""
        return QuotaAmounts(
            self.memory_bytes + sign * other.memory_bytes,
            self.cards + sign * other.cards,
            self.compute + sign * other.compute,
        )


def sum_charges(charges: Iterable[Charge]) -> QuotaAmounts:
    """Return the total amounts that a pod uses on all cards."""
    memory = cards = compute = 0
    for charge in charges:
        cards += charge.counted
        if charge.whole:
            cards += 1
        else:
            memory += charge.memory_bytes
            compute += charge.compute
    return QuotaAmounts(memory, cards, compute)


def sum_request(request: PodRequest) -> QuotaAmounts:
    """Return the amounts that a pod will use on any node.

    Containers reuse the amounts of preceding plain init containers before they use additional amounts.
    """
    memory = cards = compute = counted = 0
    memory_pool = cards_pool = compute_pool = 0
    for container in request.containers:
        keeps = container.kind is not Kind.INIT
        counted += container.cards if container.counted_by else 0
        if container.whole:
            cards += max(0, container.cards - cards_pool)
            cards_pool = max(0, cards_pool - container.cards) if keeps else max(cards_pool, container.cards)
            continue
        requested, requested_compute = container.memory_bytes * container.cards, container.compute * container.cards
        memory += max(0, requested - memory_pool)
        compute += max(0, requested_compute - compute_pool)
        memory_pool = max(0, memory_pool - requested) if keeps else max(memory_pool, requested)
        compute_pool = max(0, compute_pool - requested_compute) if keeps else max(compute_pool, requested_compute)
    return QuotaAmounts(memory, cards + counted, compute)
