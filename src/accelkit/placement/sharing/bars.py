"""Sharing rules that exclude a container from a card, regardless of the free amounts of the card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, PodSelector
from accelkit.placement.misfit import Misfit, MisfitReason

_MOST_NAMED: Final = 4
# The order in which the rules are checked.
_ORDER: Final = (MisfitReason.CARD_IDS, MisfitReason.RESERVED, MisfitReason.BESIDE, MisfitReason.APART)


class Reserved(msgspec.Struct, frozen=True):
    """The reservation of a card: its name, and a description of the pods that may use the card."""

    name: str
    whom: str


class Neighbours(msgspec.Struct, frozen=True):
    """The selectors of a request that match pods with shares of a card.

    Attributes:
        sure: the selectors for which a matching pod has a share of the card.
        possible: the selectors for which a matching pod may have a share, because its cards on the node are unknown.
    """

    sure: frozenset[PodSelector] = frozenset()
    possible: frozenset[PodSelector] = frozenset()


NOBODY: Final = Neighbours()


def is_ruled(container: ContainerRequest) -> bool:
    """Return whether sharing rules apply to a container because of card IDs, pod selectors or card reservations."""
    return bool(container.card_ids or container.beside or container.apart or container.closed)


def find_bar(
    card: Card, reserved: Reserved | None, neighbours: Neighbours, container: ContainerRequest
) -> MisfitReason | None:
    """Return the rule that excludes a container from a card; None if no rule excludes it.

    Args:
        card: the card.
        reserved: the reservation of the card; None if all pods may use the card.
        neighbours: the selectors of the container that match pods with shares of the card.
        container: the container that requests the card.
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
    """Return the misfit for a container that rules exclude from cards with free amounts; None if no rule excludes it.

    Args:
        bars: the rules that exclude the container.
        container: the container that requests the cards.
        reservations: the reservations of these cards.
    """
    if not bars:
        return None
    # The rule that is checked last applies to the cards that satisfy the most other rules.
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
