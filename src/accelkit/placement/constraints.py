"""Constraints of a request that an assignment violates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from accelkit.model.assignment import Assignment
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest, PodRequest
from accelkit.model.units import format_bytes
from accelkit.placement.likeness import is_large
from accelkit.placement.topology.groups import may_be_groups
from accelkit.placement.topology.links import CardLinks
from accelkit.texts import count_cards


def find_broken_constraints(
    request: PodRequest, assignment: Assignment, cards: Mapping[str, Card], links: CardLinks | None = None
) -> tuple[str, ...]:
    """Return a sentence for each violated constraint.

    A constraint is also violated if the property of the card to which it applies is unknown.

    Args:
        request: the request of the pod.
        assignment: the assignment of the pod.
        cards: the node's cards by ID.
        links: the connections of the cards, in the same order. If they are None, the connections are unknown, and
            groups are not checked.
    """
    return tuple(
        sentence for container in request.containers for sentence in _find_broken(container, assignment, cards, links)
    )


def _find_broken(
    container: ContainerRequest, assignment: Assignment, cards: Mapping[str, Card], links: CardLinks | None
) -> Iterator[str]:
    name = f"container {container.container}"
    held = [share.card for share in assignment.containers.get(container.container, ())]
    if not held:
        return
    if len(held) != container.cards:
        yield f"{name} has {count_cards(len(held))} instead of {container.cards}"
    if container.model and any(card not in cards or cards[card].model != container.model for card in held):
        yield f"{name} has cards of a model other than {container.model}"
    beside = {share.card for share in assignment.containers.get(container.same_card_as, ())}
    if container.same_card_as and beside and not beside >= set(held):
        yield f"{name} does not use the cards of container {container.same_card_as}"
    if container.numa and held and not _one_numa_node(held, cards):
        yield f"{name} has cards on several NUMA nodes"
    if container.link and not all(_linked(a, b, container.link, cards) for a, b in combinations(held, 2)):
        yield f"{name} has cards without a link between them"
    if any(card not in cards or not is_large(cards[card], container) for card in held) and container.min_memory_bytes:
        yield f"{name} has cards with less memory than {format_bytes(container.min_memory_bytes)}"
    if container.groups and links is not None and not _are_grouped(container, held, cards, links):
        yield f"{name} has cards that are too far apart or too small for its groups"


def _are_grouped(container: ContainerRequest, held: Sequence[str], cards: Mapping[str, Card], links: CardLinks) -> bool:
    if len(set(held)) != container.cards or not cards.keys() >= set(held):
        return False
    places = {card: place for place, card in enumerate(cards)}
    memory = [card.memory_bytes or 0 for card in cards.values()]
    return may_be_groups(links, memory, container.groups, sum(1 << places[card] for card in held))


def _one_numa_node(held: Sequence[str], cards: Mapping[str, Card]) -> bool:
    nodes = {cards[card].numa if card in cards else None for card in held}
    return len(nodes) == 1 and None not in nodes


def _linked(one: str, other: str, kind: str, cards: Mapping[str, Card]) -> bool:
    ends = ((one, other), (other, one))
    return any(link.to == b and kind in ("any", link.kind) for a, b in ends if a in cards for link in cards[a].links)
