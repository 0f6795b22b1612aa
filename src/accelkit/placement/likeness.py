"""Functions that check whether a container may use two cards together, and whether cards are equivalent."""

from __future__ import annotations

from collections.abc import Sequence

from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest


def may_be_together(container: ContainerRequest, a: Card, b: Card) -> bool:
    """Return whether a container may use two cards together, or a single card if both arguments are the same."""
    if container.numa and (a.numa is None or a.numa != b.numa):
        return False
    kind = container.link
    return not kind or a.id == b.id or _has_link(a, b, kind) or _has_link(b, a, kind)


def is_large(card: Card, container: ContainerRequest) -> bool:
    """Return whether a card has the minimum memory that the container requires. Unknown memory is treated as 0."""
    return container.min_memory_bytes <= (card.memory_bytes or 0)


def classify_cards(
    cards: Sequence[Card], amounts: Sequence[tuple[object, ...]], containers: Sequence[ContainerRequest]
) -> list[int]:
    """Return a class number for each card. Cards in the same class are equivalent for these containers.

    Args:
        cards: the cards of a node.
        amounts: the free amounts of each card.
        containers: the containers of a pod.
    """
    numbered = any(container.allowed or container.denied for container in containers)
    models, numa = any(container.model for container in containers), any(container.numa for container in containers)
    memory = any(container.min_memory_bytes for container in containers)
    # Check both cards, because only one of them may report a link.
    ends = (card for other in cards for link in other.links for card in (other.id, link.to))
    linked = set(ends) if any(container.link for container in containers) else set[str]()
    each_alone = any(container.groups for container in containers)
    numbers: dict[object, int] = {}
    classes = []
    for index, card in enumerate(cards):
        traits = (
            *(*amounts[index], card.capacity_bytes, card.memory_factor, memory and card.memory_bytes),
            *(models and card.model, numa and card.numa, numbered and card.number),
            index if each_alone or card.id in linked else -1,
        )
        classes.append(numbers.setdefault(traits, len(numbers)))
    return classes


def _has_link(card: Card, other: Card, kind: str) -> bool:
    return any(link.to == other.id and kind in ("any", link.kind) for link in card.links)
