"""Scores nodes under the policy `topology`, by the best connected cards that they have for a request."""

from __future__ import annotations

from accelkit.ledger.holding import NodeEntry
from accelkit.model.request import ContainerRequest, PodRequest
from accelkit.placement.fit import CardState
from accelkit.placement.likeness import is_large
from accelkit.placement.policies import Policy, score_node
from accelkit.placement.topology.scores import score_set


def score_links(entry: NodeEntry, request: PodRequest, used_fraction: float) -> int:
    """Score a node 0 to MAX_SCORE by the best set of cards for the container that asks for the most.

    Args:
        entry: the node.
        request: what the pod asks for.
        used_fraction: how much of the node's memory is used, 0 to 1.
    """
    links = entry.find_links()
    if links is None:
        return score_node(Policy.TOPOLOGY, used_fraction)
    container = max(request.containers, key=lambda each: (each.cards, each.whole, each.memory_bytes))
    free = empty = 0
    # Thousands of nodes are scored at once, for mostly nothing but empty cards.
    plain = container.whole and not (container.model or container.min_memory_bytes or container.allowed)
    plain = plain and not container.denied
    for index, state in enumerate(entry.list_card_states()):
        if state.card.placeable:
            empty |= state.empty << index
            if not plain:
                free |= _fits(state, container) << index
    free = empty if plain else free
    return score_set(links, container.cards, free, empty, used_fraction if container.cards == 1 else 0.0)


def _fits(state: CardState, container: ContainerRequest) -> bool:
    card = state.card
    if container.model not in ("", card.model) or not is_large(card, container):
        return False
    if (container.allowed and card.number not in container.allowed) or card.number in container.denied:
        return False
    if container.whole:
        return state.empty
    return state.free_bytes >= container.memory_bytes and state.free_compute >= container.compute
