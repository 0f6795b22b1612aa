"""The cards of this node with their states, including cards that discovery no longer finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from accelkit.model.card import Card, Health
from accelkit.model.card_loss import GONE_FROM_NODE
from accelkit.model.cordon import apply_cordon
from accelkit.node.discovery import FoundCard
from accelkit.vendors.profiles import Profile


class Monitor(Protocol):
    """Interface of a card health monitor."""

    def observe(self, cards: Sequence[FoundCard]) -> Mapping[str, tuple[Health, str]]:
        """Return the current health of each card, with the reason if it is not healthy."""

    def list_faults(self) -> Mapping[str, str]:
        """Return the faults that require a repair, by card ID."""

    def remember_fault(self, card: str, fault: str) -> None:
        """Record a known fault of a card that has not been observed yet."""


class CardStates:
    """The cards of one node, with their states.

    A card that discovery no longer finds is listed as unhealthy, so that its shares are still counted. A card that
    disappeared before this agent started is listed if its devices are allocated to containers.

    Args:
        monitor: monitors the health of the cards.
        enforcement: returns the mechanism that enforces the shares of a card, or None.
    """

    def __init__(self, monitor: Monitor, enforcement: Callable[[FoundCard], str | None] = lambda _found: None) -> None:
        self._monitor = monitor
        self._enforcement = enforcement
        self._known: dict[str, FoundCard] = {}

    def remember(self, cards: Sequence[Card], profiles: Mapping[str, Profile], held: Collection[str]) -> None:
        """Record the faults and the allocated cards from the time before this agent started.

        Args:
            cards: the cards of the published inventory.
            profiles: the profiles by vendor name.
            held: the IDs of the cards whose devices are allocated to containers.
        """
        for place, card in enumerate(cards):
            if card.fault:
                self._monitor.remember_fault(card.id, card.fault)
            if card.id in held and card.vendor in profiles and card.id not in self._known:
                index = place if card.index is None else card.index
                self._known[card.id] = FoundCard(card, index, card.minor, profiles[card.vendor])

    def update(self, found: Sequence[FoundCard], cordon: frozenset[str]) -> list[FoundCard]:
        """Return all cards with their state, sorted by number.

        Args:
            found: the cards that discovery found.
            cordon: the words that identify cordoned cards, as in the label or annotation.
        """
        places = {each.card.bdf: each.card.id for each in self._known.values() if each.card.bdf}
        # A card without a driver may no longer report its ID. In this case, it is treated as the known card at its
        # address, which is treated as missing.
        present = [each for each in found if each.driver or places.get(each.card.bdf, each.card.id) == each.card.id]
        ids = {each.card.id for each in present}
        self._known |= {each.card.id: each for each in present}
        ordered = sorted(self._known.values(), key=lambda each: (each.index, each.card.id))
        health, faults = self._monitor.observe(ordered), self._monitor.list_faults()
        cards = [
            msgspec.structs.replace(
                self._with_state(each.card, health, gone=each.card.id not in ids, enforcement=self._enforcement(each)),
                fault=faults.get(each.card.id, ""),
            )
            for each in ordered
        ]
        return [replace(each, card=card) for each, card in zip(ordered, apply_cordon(cards, cordon), strict=True)]

    def _with_state(
        self, card: Card, health: Mapping[str, tuple[Health, str]], *, gone: bool, enforcement: str | None
    ) -> Card:
        state, reason = health.get(card.id, (card.health, card.health_reason))
        if gone:
            state, reason = Health.UNHEALTHY, reason or GONE_FROM_NODE
        elif card.health is Health.UNHEALTHY:
            # A card that discovery reports as unhealthy is unhealthy, regardless of the monitor.
            state, reason = card.health, card.health_reason
        reason = "" if state is Health.HEALTHY else reason
        return msgspec.structs.replace(card, health=state, health_reason=reason, enforcement=enforcement or "")
