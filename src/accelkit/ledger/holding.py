"""Ledger entries: nodes, and the shares of pods on these nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.model.amounts import Amounts, add_amounts, take_off
from accelkit.model.assignment import MOVING, Assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest, PodSelector
from accelkit.model.units import WHOLE_COMPUTE
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.charges import Charge
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.sharing.bars import Neighbours, Reserved
from accelkit.placement.sharing.quota_amounts import QuotaAmounts, sum_charges, sum_request
from accelkit.placement.topology.links import CardLinks, find_links


class ShareStage(StrEnum):
    """The progress of a holding.

    - CLAIMED: cards are reserved for a pod whose victims may still be terminating. No Binding was sent.
    - RESERVED: a Binding was sent and its outcome is unknown. For a pod group, this stage also applies before a Binding
      is sent.
    - BOUND: the API server accepted the Binding, but neither the watch nor a list has reported it yet.
    - CONFIRMED: the watch or a list reported the bound pod.
    """

    CLAIMED = "claimed"
    RESERVED = "reserved"
    BOUND = "bound"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class Holding:
    """The shares of one pod on one node, and the charge of the pod on each card."""

    pod: PodRef
    node: str
    assignment: Assignment
    charges: dict[str, Charge]
    stage: ShareStage
    labels: tuple[str, ...] = ()

    @property
    def quota_amounts(self) -> QuotaAmounts:
        """The amounts that count against the quota of the pod's namespace."""
        return sum_charges(self.charges.values())


@dataclass(frozen=True, slots=True)
class UnassignedPod:
    """A bound pod whose cards are unknown, because it has no readable assignment.

    Its memory and compute are counted on every card of its node. If the pod requests whole cards, every empty card is
    treated as assigned, so that no card is assigned twice.
    """

    pod: PodRef
    node: str
    request: PodRequest
    problem: str
    labels: tuple[str, ...] = ()

    @property
    def quota_amounts(self) -> QuotaAmounts:
        """The maximum amounts that can count against the quota of the pod's namespace."""
        return sum_request(self.request)

    @property
    def memory_bytes(self) -> int:
        """The maximum memory that the pod can use on one card. Several of its shares may be on the same card."""
        return sum(container.memory_bytes * container.cards for container in self.request.containers)

    @property
    def compute(self) -> int:
        """The maximum compute that the pod can use on one card."""
        return sum(container.compute for container in self.request.containers)

    @property
    def amounts(self) -> Amounts:
        """The maximum amounts that the pod can use on one card, for resources other than memory and compute."""
        most: Amounts = ()
        for container in self.request.containers:
            most = add_amounts(most, tuple((name, amount * container.cards) for name, amount in container.amounts))
        return most

    @property
    def whole(self) -> bool:
        """Whether the pod can have whole cards."""
        return any(container.whole for container in self.request.containers)


@dataclass(slots=True)
class CardUse:
    """The amounts of one card that are assigned to pods.

    The whole card may be assigned to several pods. This is an error, but the ledger never rejects a bound pod.
    """

    used_bytes: int = 0
    used_compute: int = 0
    holders: int = 0
    whole_holders: int = 0
    used_amounts: Amounts = ()

    @property
    def whole(self) -> bool:
        """Whether the whole card is assigned to a pod."""
        return self.whole_holders > 0

    def add(self, charge: Charge, sign: int) -> None:
        """Add a charge (+1) or subtract it (-1)."""
        self.used_bytes += sign * charge.memory_bytes
        self.used_compute += sign * charge.compute
        self.holders += sign
        self.whole_holders += sign * charge.whole
        self.used_amounts = add_amounts(self.used_amounts, charge.amounts, sign)


CORRECTING: Final = Misfit(MisfitReason.CORRECTING, resolvable=False)


@dataclass(slots=True)
class NodeEntry:
    """A node with its cards and the shares of pods.

    Attributes:
        inventory: the inventory of the node; None if it is unknown. In this case, `problem` contains the reason.
        row: the node's row in the table of all nodes.
        correcting: whether a correction has caused a card to exceed its capacity, so that the node accepts no new pods
            until further corrections.
        reserved: the reservations of its cards, by card ID; cards without a reservation are omitted.
        ended: the number of bound pods that had cards on the node and have been released.
    """

    name: str
    row: int
    inventory: Inventory | None = None
    problem: Misfit | None = None
    uses: dict[str, CardUse] = field(default_factory=dict)
    holdings: dict[str, Holding] = field(default_factory=dict)
    unassigned: dict[str, UnassignedPod] = field(default_factory=dict)
    reserved: Mapping[str, Reserved] = field(default_factory=dict)
    _states: list[CardState] | None = None
    _links: tuple[Inventory, CardLinks | None] | None = None
    # The card states, with their neighbours, for the most recent request with selectors.
    _marked: tuple[frozenset[PodSelector], list[CardState]] | None = None
    ended: int = 0
    correcting: bool = False

    @property
    def refusal(self) -> Misfit | None:
        """The reason why the node does not accept new pods; None if it may accept pods."""
        return CORRECTING if self.problem is None and self.correcting else self.problem

    @property
    def overfull(self) -> bool:
        """Whether the shares of pods exceed the capacity of a card. Cards with unknown memory are not checked."""
        return any(
            (use := self.uses.get(card.id)) is not None
            and ((card.capacity_bytes and use.used_bytes > card.capacity_bytes) or (use.whole and use.holders > 1))
            for card in self.list_cards()
        )

    @property
    def gone(self) -> bool:
        """Whether the node no longer exists and no pod has cards on it."""
        unknown = self.problem is not None and self.problem.reason is MisfitReason.UNKNOWN_NODE
        return unknown and not self.holdings and not self.unassigned

    def list_cards(self) -> tuple[Card, ...]:
        """Return the known cards."""
        return () if self.inventory is None else self.inventory.cards

    @property
    def has_links(self) -> bool:
        """Whether the result of `find_links` is cached."""
        return self._links is not None and self._links[0] is self.inventory

    def find_links(self) -> CardLinks | None:
        """Return the connections between the known cards, in the order of the cards; None if unknown."""
        if self.inventory is None:
            return None
        if self._links is None or not self.has_links:
            self._links = self.inventory, find_links(self.inventory.cards, self.inventory.topology)
        return self._links[1]

    def describe_links(self, assignment: Assignment) -> dict[str, dict[str, int]]:
        """Return the number of card pairs per connection, strongest first, for each container with several cards."""
        places = {card.id: place for place, card in enumerate(self.list_cards())}
        found = {
            name: [places[share.card] for share in shares if share.card in places]
            for name, shares in assignment.containers.items()
            if len(shares) > 1 and name != MOVING
        }
        links = self.find_links() if found else None
        return {} if links is None else {name: links.describe(cards) for name, cards in found.items()}

    def list_card_states(self) -> list[CardState]:
        """Return every card with its free amounts. Callers must not change the list."""
        if self._states is None:
            self._states = self._count()
        return self._states

    def list_states_for(self, request: PodRequest) -> list[CardState]:
        """Return every card with its free amounts, and the selectors of the request that match pods on the card.

        For equal requests, the same list is returned until the node changes. Callers must not change the list.
        """
        selectors = request.selectors
        if not selectors:
            return self.list_card_states()
        if self._marked is None or self._marked[0] != selectors:
            found = find_neighbours(selectors, self.holdings.values(), self.unassigned.values())
            states = self.list_card_states()
            marked = [msgspec.structs.replace(state, neighbours=found(state.card.id)) for state in states]
            self._marked = selectors, marked
        return self._marked[1]

    def list_empty_states(self) -> list[CardState]:
        """Return the states that the cards would have without any pods on the node."""
        states = build_empty_states(self.list_cards())
        if not self.reserved:
            return states
        reserved = self.reserved
        return [msgspec.structs.replace(state, reserved=reserved.get(state.card.id)) for state in states]

    def invalidate(self) -> None:
        """Discard cached states after a change to cards, holdings or unassigned pods."""
        self._states = self._marked = None

    def _count(self) -> list[CardState]:
        unassigned = list(self.unassigned.values())
        states = [_state(card, self.find_use(card.id), unassigned) for card in self.list_cards()]
        if not (reserved := self.reserved):
            return states
        return [msgspec.structs.replace(state, reserved=reserved.get(state.card.id)) for state in states]

    def find_use(self, card: str) -> CardUse | None:
        """Return the amounts of a card that pods use, including amounts that only the node agent reports."""
        use = self.uses.get(card)
        more = [share for share in self.inventory.uncounted if share.card == card] if self.inventory else []
        if more:
            use = CardUse() if use is None else replace(use)
            for share in more:
                use.add(Charge(share.memory_bytes, share.compute, share.whole, share.amounts), +1)
        return use

    def copy_without(self, uids: Collection[str]) -> NodeEntry:
        """Return an independent copy of the node without some of its pods."""
        uses = {card: replace(use) for card, use in self.uses.items()}
        holdings = {uid: held for uid, held in self.holdings.items() if uid not in uids}
        unassigned = {uid: pod for uid, pod in self.unassigned.items() if uid not in uids}
        states = None if uids else self._states
        other = NodeEntry(
            self.name, self.row, self.inventory, self.problem, uses, holdings, unassigned, self.reserved, states
        )
        for uid in self.holdings.keys() & uids:
            other.charge(self.holdings[uid].charges.items(), -1)
        return other

    def charge(self, charges: Iterable[tuple[str, Charge]], sign: int) -> None:
        """Add a pod's charges (+1) or subtract them (-1)."""
        for card, charge in charges:
            use = self.uses.setdefault(card, CardUse())
            use.add(charge, sign)
            if use.holders == 0:
                del self.uses[card]


def find_neighbours(
    selectors: Collection[PodSelector], holdings: Iterable[Holding], unassigned: Iterable[UnassignedPod]
) -> Callable[[str], Neighbours]:
    """Return a function that maps a card to the selectors that match pods on this card.

    Args:
        selectors: the selectors of a request.
        holdings: the holdings on the node.
        unassigned: the pods on the node whose cards are unknown. These pods may be on any card.
    """
    sure: dict[str, set[PodSelector]] = {}
    for held in holdings:
        for selector in selectors:
            if selector.matches(held.pod.namespace, held.labels):
                for card in held.charges:
                    sure.setdefault(card, set()).add(selector)
    possible = frozenset(
        selector for pod in unassigned for selector in selectors if selector.matches(pod.pod.namespace, pod.labels)
    )
    return lambda card: Neighbours(frozenset(sure.get(card, ())), possible)


def _state(card: Card, use: CardUse | None, unassigned: Sequence[UnassignedPod]) -> CardState:
    if use is None and not unassigned:
        return CardState(card, card.capacity_bytes, WHOLE_COMPUTE, empty=True, free_amounts=card.amounts)
    taken = any(pod.whole for pod in unassigned) if use is None else use.whole
    if taken:
        return CardState(card, 0, 0, empty=False)
    held = use or CardUse()
    unassigned_bytes = sum(pod.memory_bytes for pod in unassigned)
    free_amounts = take_off(card.amounts, held.used_amounts)
    for pod in unassigned if free_amounts else ():
        free_amounts = take_off(free_amounts, pod.amounts)
    return CardState(
        card,
        card.capacity_bytes - held.used_bytes - unassigned_bytes,
        WHOLE_COMPUTE - held.used_compute - sum(pod.compute for pod in unassigned),
        empty=False,
        free_amounts=free_amounts,
    )
