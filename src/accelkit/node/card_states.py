"""Remembers the cards of this node: those found now and those that were there before, each with its state."""

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
    """Watches the health of cards."""

    def observe(self, cards: Sequence[FoundCard]) -> Mapping[str, tuple[Health, str]]:
        """Return the health of each card now, and why it is not healthy."""

    def list_faults(self) -> Mapping[str, str]:
        """Return what has to be mended, by card id."""

    def remember_fault(self, card: str, fault: str) -> None:
        """Take over what had to be mended of a card that was not looked at yet."""


class CardStates:
    """Remembers the cards of one node.

    A card that is not found any more stays, unhealthy, so that what it holds is never forgotten; one that was gone
    before this agent started stays where containers hold some of it.

    Args:
        monitor: watches their health.
        enforcement: says what keeps a card's shares within their memory.
    """

    def __init__(self, monitor: Monitor, enforcement: Callable[[FoundCard], str | None] = lambda _found: None) -> None:
        self._monitor = monitor
        self._enforcement = enforcement
        self._known: dict[str, FoundCard] = {}

    def remember(self, cards: Sequence[Card], profiles: Mapping[str, Profile], held: Collection[str]) -> None:
        """Take over what was published before this agent started: cards that containers hold, and what is not mended.

        Args:
            cards: those of the published inventory.
            profiles: by vendor name.
            held: ids of cards of which containers hold devices.
        """
        for place, card in enumerate(cards):
            if card.fault:
                self._monitor.remember_fault(card.id, card.fault)
            if card.id in held and card.vendor in profiles and card.id not in self._known:
                index = place if card.index is None else card.index
                self._known[card.id] = FoundCard(card, index, card.minor, profiles[card.vendor])

    def update(self, found: Sequence[FoundCard], cordon: frozenset[str]) -> list[FoundCard]:
        """Return all cards with their state, in the order of their numbers.

        Args:
            found: what discovery sees.
            cordon: words by which cards are cordoned.
        """
        places = {each.card.bdf: each.card.id for each in self._known.values() if each.card.bdf}
        # Without its driver a card may have lost its name: it is the one that was in its place, and gone.
        present = [each for each in found if each.driver or places.get(each.card.bdf, each.card.id) == each.card.id]
        here = {each.card.id for each in present}
        self._known |= {each.card.id: each for each in present}
        ordered = sorted(self._known.values(), key=lambda each: (each.index, each.card.id))
        health, faults = self._monitor.observe(ordered), self._monitor.list_faults()
        cards = [
            msgspec.structs.replace(
                self._with_state(each.card, health, gone=each.card.id not in here, enforcement=self._enforcement(each)),
                fault=faults.get(each.card.id, ""),
            )
            for each in ordered
        ]
        return [replace(each, card=card) for each, card in zip(ordered, apply_cordon(cards, cordon), strict=True)]

    def _with_state(
        self, card: Card, health: Mapping[str, tuple[Health, str]], *, gone: bool, enforcement: str | None
    ) -> Card:
        told, reason = health.get(card.id, (card.health, card.health_reason))
        if gone:
            told, reason = Health.UNHEALTHY, reason or GONE_FROM_NODE
        elif card.health is Health.UNHEALTHY:
            # What discovery itself knows to be bad is bad.
            told, reason = card.health, card.health_reason
        why = "" if told is Health.HEALTHY else reason
        return msgspec.structs.replace(card, health=told, health_reason=why, enforcement=enforcement or "")
