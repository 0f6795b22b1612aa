"""Node scores for the policy `topology`, based on the best connected cards of each node for a request."""

from __future__ import annotations

from typing import Final, TypeAlias

from accelkit.ledger.holding import NodeEntry
from accelkit.model.nic import is_near
from accelkit.model.request import ContainerRequest, PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.card_state import CardState
from accelkit.placement.charges import CardTally
from accelkit.placement.lacks import find_lacking_amount
from accelkit.placement.likeness import is_large
from accelkit.placement.policies import Policy, score_node
from accelkit.placement.topology.links import CardLinks
from accelkit.placement.topology.ranking import count_steps
from accelkit.placement.topology.scores import SetRating, rate_set, score_preference, score_rating
from accelkit.placement.topology.set_request import SetRequest

# The limit on the steps that one call may use for uncached states, which corresponds to a tenth of a second. Nodes with
# eight equally connected cards have 256 states. The steps for these states take a fifth of this time.
_STEPS: Final = 5_000
_MOST_STATES: Final = 50_000

_State: TypeAlias = tuple[CardLinks, int, int]


class LinkScores:
    """The scores of nodes for one request.

    The rating for each state of the cards is cached, because many nodes share a few states. If a call has used all of
    its steps, each remaining node gets a provisional score based on its used memory. The next call rates these nodes
    first.

    Args:
        request: the request. Only the container with the most cards is considered.
    """

    def __init__(self, request: PodRequest) -> None:
        self._container = max(request.containers, key=lambda each: (each.cards, each.whole, each.memory_bytes))
        # A call scores thousands of nodes. Usually, only their empty cards are relevant.
        bounds = (self._container.model, self._container.min_memory_bytes, self._container.allowed)
        self._plain = self._container.whole and not any((*bounds, self._container.denied))
        self._ratings: dict[_State, SetRating | None] = {}
        self._budget = Budget(_STEPS)
        self._late = set[int]()

    def begin(self) -> list[int]:
        """Start a call; return the rows of the nodes that a previous call did not rate."""
        self._budget = Budget(_STEPS)
        if len(self._ratings) > _MOST_STATES:
            self._ratings.clear()
        late, self._late = sorted(self._late), set()
        return late

    def score(self, entry: NodeEntry, used_fraction: float) -> int:
        """Return the score of a node, from 0 to MAX_SCORE.

        Args:
            entry: the node.
            used_fraction: the used fraction of the node's memory, from 0 to 1.
        """
        if self._budget.is_spent():
            self._late.add(entry.row)
            return score_node(Policy.TOPOLOGY, used_fraction)
        if not entry.has_links:
            self._budget.steps -= 1
        links = entry.find_links()
        prefers_nic = self._container.nic
        if links is None and not prefers_nic:
            return score_node(Policy.TOPOLOGY, used_fraction)
        free, empty = self._find_cards(entry)
        near = free & _find_near(entry) if prefers_nic else 0
        granted = near.bit_count() >= self._container.cards
        score = self._score_cards(links, near if granted else free, empty, used_fraction)
        return score_preference(score, granted=granted) if prefers_nic else score

    def _score_cards(self, links: CardLinks | None, free: int, empty: int, used_fraction: float) -> int:
        if links is None:
            return score_node(Policy.TOPOLOGY, used_fraction)
        cards, state = self._container.cards, (links, free, empty)
        if state not in self._ratings:
            set_request = SetRequest(cards, free, empty)
            self._budget.steps -= count_steps(links, set_request)
            self._ratings[state] = rate_set(links, set_request)
        return score_rating(self._ratings[state], cards, used_fraction)

    def _find_cards(self, entry: NodeEntry) -> tuple[int, int]:
        """Return bit masks of the cards that fit, and of the empty cards."""
        free = empty = 0
        for index, state in enumerate(entry.list_card_states()):
            if state.card.placeable:
                empty |= state.empty << index
                if not self._plain:
                    free |= _fits(state, self._container) << index
        return empty if self._plain else free, empty


def _find_near(entry: NodeEntry) -> int:
    """Return a bit mask of the cards that share a PCI root complex with a network card."""
    return sum(1 << index for index, state in enumerate(entry.list_card_states()) if is_near(state.card.nic))


def _fits(state: CardState, container: ContainerRequest) -> bool:
    card = state.card
    if container.model not in ("", card.model) or not is_large(card, container):
        return False
    if (container.allowed and card.number not in container.allowed) or card.number in container.denied:
        return False
    if container.whole:
        return state.empty
    return (
        state.free_bytes >= container.memory_bytes
        and state.free_compute >= container.compute
        and not (container.amounts and find_lacking_amount(state, CardTally(), container))
    )
