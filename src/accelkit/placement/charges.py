"""Charges of a pod on each card over its lifetime.

The kubelet reuses the devices of a plain init container for subsequent containers, and does not free devices before the
pod terminates. Therefore, a pod's charge on a card is the number of distinct devices on this card that are allocated to
its containers. This number is neither the sum nor the maximum of the requests:

- init 8, app 4: charge 8
- init 4, app 8: charge 8
- init 8, app 4, app 8: charge 12
- sidecar 4, init 8, app 4: charge 12
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from accelkit.model.amounts import Amounts, add_amounts, take_up_to
from accelkit.model.assignment import Share
from accelkit.model.request import ContainerRequest, Kind


class Charge(msgspec.Struct, frozen=True):
    """The amounts of one card that a pod uses: memory, compute and other amounts, or the whole card.

    Attributes:
        counted: the number of containers that requested the card by number, regardless of their amounts.
    """

    memory_bytes: int
    compute: int
    whole: bool
    amounts: Amounts = ()
    counted: int = 0


@dataclass(slots=True)
class CardTally:
    """The sum of the shares of a card for the containers of one pod, with pools of devices from init containers."""

    memory_bytes: int = 0
    compute: int = 0
    whole: bool = False
    memory_pool: int = 0
    compute_pool: int = 0
    whole_pool: bool = False
    amounts: Amounts = ()
    amounts_pool: Amounts = ()
    counted: int = 0

    def take(self, share: Share, kind: Kind) -> None:
        """Add a container's share, which uses the pool first. Whole cards and memory have separate pools."""
        if share.amounts:
            # Only containers that request cards by number have other amounts. Until their cards are known, it is
            # unknown whether they reuse amounts.
            self.counted += 1
            self._take_amounts(share.amounts, kind)
        if share.whole:
            if not self.whole_pool:
                self.memory_bytes += share.memory_bytes
                self.compute += share.compute
            self.whole = True
            self.whole_pool = kind is Kind.INIT
            return
        reused_memory = min(self.memory_pool, share.memory_bytes)
        reused_compute = min(self.compute_pool, share.compute)
        self.memory_bytes += share.memory_bytes - reused_memory
        self.compute += share.compute - reused_compute
        if kind is Kind.INIT:
            self.memory_pool += share.memory_bytes - reused_memory
            self.compute_pool += share.compute - reused_compute
        else:
            self.memory_pool -= reused_memory
            self.compute_pool -= reused_compute

    def copy(self) -> CardTally:
        """Return an independent copy of the tally."""
        return CardTally(
            *(self.memory_bytes, self.compute, self.whole, self.memory_pool, self.compute_pool, self.whole_pool),
            *(self.amounts, self.amounts_pool, self.counted),
        )

    def sum_charge(self) -> Charge:
        """Return the pod's charge on the card for the shares that were added."""
        return Charge(self.memory_bytes, self.compute, self.whole, self.amounts, self.counted)

    def _take_amounts(self, amounts: Amounts, kind: Kind) -> None:
        reused = take_up_to(self.amounts_pool, amounts)
        self.amounts = add_amounts(add_amounts(self.amounts, amounts), reused, -1)
        if kind is Kind.INIT:
            self.amounts_pool = add_amounts(add_amounts(self.amounts_pool, amounts), reused, -1)
        else:
            self.amounts_pool = add_amounts(self.amounts_pool, reused, -1)


def is_predictable(container: ContainerRequest, pool: Sequence[CardTally]) -> bool:
    """Return whether accelkit can predict which devices of a pool the kubelet allocates to a container.

    Args:
        container: the container.
        pool: the cards whose devices the kubelet reuses for the container.
    """
    if not pool or container.whole:
        return True
    held = sum(tally.memory_pool for tally in pool)
    if container.cards * container.memory_bytes < held:
        return len(pool) == 1 and container.cards == 1
    return len(pool) <= container.cards and all(tally.memory_pool <= container.memory_bytes for tally in pool)


@dataclass(slots=True)
class Tallies:
    """The tallies of all cards on which a pod has shares, by card ID."""

    cards: dict[str, CardTally] = field(default_factory=dict)

    def take(self, shares: Iterable[Share], kind: Kind) -> None:
        """Add a container's shares."""
        for share in shares:
            self.cards.setdefault(share.card, CardTally()).take(share, kind)


def count_charges(order: Iterable[tuple[str, Kind]], containers: Mapping[str, tuple[Share, ...]]) -> dict[str, Charge]:
    """Return the charge of a pod on each card.

    Args:
        order: the names and kinds of the containers, in the order in which the kubelet allocates devices.
        containers: the shares of each container. A container that is missing from `order` is treated as an app
            container, so that every share of an assignment is charged.
    """
    tallies = Tallies()
    counted = set[str]()
    for name, kind in order:
        counted.add(name)
        tallies.take(containers.get(name, ()), kind)
    for name, shares in containers.items():
        if name not in counted:
            tallies.take(shares, Kind.APP)
    return {card: tally.sum_charge() for card, tally in tallies.cards.items()}
