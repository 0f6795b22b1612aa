"""Says which rule of sharing keeps a container off a card, whatever is free of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, PodSelector
from accelkit.placement.misfit import Misfit, MisfitReason

_MOST_NAMED: Final = 4
# In which they are looked for.
_ORDER: Final = (MisfitReason.CARD_IDS, MisfitReason.RESERVED, MisfitReason.BESIDE, MisfitReason.APART)


class Reserved(msgspec.Struct, frozen=True):
    """The reservation of a card: its name, and for whom it is, in words."""

    name: str
    whom: str


class Neighbours(msgspec.Struct, frozen=True):
    """Which of the pods that a request names hold a share of a card.

    Attributes:
        sure: those of which one holds a share of it.
        possible: those of which one may: a pod of the node of whose cards nobody knows.
    """

    sure: frozenset[PodSelector] = frozenset()
    possible: frozenset[PodSelector] = frozenset()


NOBODY: Final = Neighbours()


def is_ruled(container: ContainerRequest) -> bool:
    """Whether a container says, or is told, which cards it may have by their identity or by who is on them."""
    return bool(container.card_ids or container.beside or container.apart or container.closed)


def find_bar(
    card: Card, reserved: Reserved | None, neighbours: Neighbours, container: ContainerRequest
) -> MisfitReason | None:
    """Return which rule keeps a container off a card; None where none does.

    Args:
        card: the card.
        reserved: for whom it is reserved; None for everybody.
        neighbours: who holds shares of it, of the pods that the container names.
        container: who asks.
    """
    if container.card_ids and card.id not in container.card_ids:
        return MisfitReason.CARD_IDS
    if reserved is not None and reserved.name in container.closed:
        return MisfitReason.RESERVED
    if container.beside is not None and container.beside not in neighbours.sure:
        return MisfitReason.BESIDE
    apart = container.apart
    if apart is not None and (apart in neighbours.sure or apart in neighbours.possible):
        return MisfitReason.APART
    return None


def describe_bars(
    bars: Sequence[MisfitReason], container: ContainerRequest, reservations: Sequence[Reserved | None]
) -> Misfit | None:
    """Return the misfit of a container that rules keep off cards with room; None where none does.

    Args:
        bars: which rules they are.
        container: who asks.
        reservations: those of these cards.
    """
    if not bars:
        return None
    # Of the cards that came nearest.
    reason = max(bars, key=_ORDER.index)
    match reason:
        case MisfitReason.CARD_IDS:
            named = sorted(container.card_ids)
            detail = ", ".join([*named[:_MOST_NAMED], *(["…"] if len(named) > _MOST_NAMED else [])])
        case MisfitReason.RESERVED:
            closed = (each for each in reservations if each is not None and each.name in container.closed)
            detail = "; ".join(dict.fromkeys(each.whom for each in closed))
        case MisfitReason.BESIDE:
            detail = str(container.beside)
        case _:
            detail = str(container.apart)
    return Misfit(reason, container.cards, detail)
