"""Reasons why a container cannot use a card, regardless of other cards and containers.

Only `fit.place` decides whether a pod fits. A property test checks that the reasons are consistent with its results.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest
from accelkit.placement.card_state import CardState
from accelkit.placement.charges import CardTally
from accelkit.placement.lacks import find_lacking_amount
from accelkit.placement.likeness import is_large
from accelkit.placement.misfit import MisfitReason


class CardReason(StrEnum):
    """Reasons, in the order in which they are checked."""

    CORDONED = "CardCordoned"
    UNHEALTHY = "CardUnhealthy"
    MODEL = "OtherModel"
    CARD_MEMORY = "CardTooSmall"
    NOT_ALLOWED = "CardNotAllowed"
    CARD_IDS = "CardNotNamed"
    RESERVED = "CardReserved"
    BESIDE = "NotBesidePods"
    APART = "NotApartFromPods"
    IN_USE = "CardInUse"
    UNKNOWN_MEMORY = "MemoryUnknown"
    MEMORY = "InsufficientMemory"
    COMPUTE = "InsufficientCompute"
    AMOUNT = "InsufficientAmount"


_BARS: Final = {
    MisfitReason.CARD_IDS: CardReason.CARD_IDS,
    MisfitReason.RESERVED: CardReason.RESERVED,
    MisfitReason.BESIDE: CardReason.BESIDE,
    MisfitReason.APART: CardReason.APART,
}


def find_card_reason(state: CardState, container: ContainerRequest) -> CardReason | None:
    """Return the first reason why a container cannot use a card; None if the container can use the card."""
    card = state.card
    if not card.placeable:
        return CardReason.CORDONED if card.cordoned else CardReason.UNHEALTHY
    if (mismatch := _find_mismatch(card, container)) is not None:
        return mismatch
    if (bar := state.find_bar(container)) is not None:
        return _BARS[bar]
    if container.whole:
        return None if state.empty else CardReason.IN_USE
    return _find_lack(state, container)


def _find_mismatch(card: Card, container: ContainerRequest) -> CardReason | None:
    if container.model and card.model != container.model:
        return CardReason.MODEL
    if container.min_memory_bytes and not is_large(card, container):
        return CardReason.CARD_MEMORY
    if card.number in container.denied or (container.allowed and card.number not in container.allowed):
        return CardReason.NOT_ALLOWED
    return None


def _find_lack(state: CardState, container: ContainerRequest) -> CardReason | None:
    others = bool(container.amounts and not container.memory_bytes)
    if state.card.memory_bytes is None and not others:
        return CardReason.UNKNOWN_MEMORY
    if not (state.card.capacity_bytes or others) or state.room_bytes < container.memory_bytes:
        return CardReason.MEMORY
    if container.compute and state.free_compute < container.compute:
        return CardReason.COMPUTE
    if container.amounts and find_lacking_amount(state, CardTally(), container):
        return CardReason.AMOUNT
    return None
