"""Views of the results for each node, as returned by `POST /simulate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from accelkit.extender.simulation.outcomes import Judged, find_change_of_node
from accelkit.extender.simulation.sentences import describe_card_reason, describe_change
from accelkit.inspection.simulation import (
    CardRefusal,
    CardSimulation,
    ChangeView,
    NodeSimulation,
)
from accelkit.ledger.holding import Holding, NodeEntry
from accelkit.model.card import Card
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.card_reasons import find_card_reason
from accelkit.placement.card_state import CardState
from accelkit.placement.changes.change import Change
from accelkit.placement.changes.reductions import list_distinct
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import AnyPolicy
from accelkit.vendors.dialect import Dialect

# Maximum number of containers with different requests that are checked for each card.
_MOST_CONTAINERS: Final = 8
# Maximum number of steps for one trial on one node.
_STEPS: Final = 200


class NodeViews:
    """Views of the nodes of one simulation.

    Args:
        request: the request of the pod.
        dialect: the dialect, which formats the sentences.
        policy: the cluster's policy.
    """

    def __init__(self, request: PodRequest, dialect: Dialect, policy: AnyPolicy) -> None:
        self._request, self._dialect, self._policy = request, dialect, policy
        places = list(list_distinct(request))[:_MOST_CONTAINERS]
        self._distinct = [request.containers[place] for place in places]

    def build_node_simulation(self, judged: Judged, entry: NodeEntry | None, score: int) -> NodeSimulation:
        """Return the view of one node.

        Args:
            judged: the result for the node.
            entry: the current node; None if it is unknown or was removed.
            score: the score of the node in prioritize.
        """
        placed = judged.outcome.placed
        if not isinstance(placed, Misfit):
            assignment = judged.assignment
            containers = None if assignment is None else assignment.containers
            return NodeSimulation(judged.name, fits=True, score=score, assignment=containers)
        changes = judged.list_changes()
        if judged.node is None and entry is not None:
            changes = find_change_of_node(entry, placed, self._request, self._policy, Budget(_STEPS))
        states = judged.node.states if judged.node else ()
        cards = {state.card.id: state.card for state in states}
        return NodeSimulation(
            judged.name,
            fits=False,
            reason=placed.reason.value,
            sentence=self._dialect.format_misfit(placed),
            resolvable=placed.resolvable,
            cards=tuple(self._build_card_simulations(states)),
            changes=tuple(_build_change(change, cards, placed.detail) for change in changes),
            searched=bool(changes) or judged.node is None or judged.outcome.ended,
        )

    def build_held_simulation(self, name: str, held: Holding) -> NodeSimulation:
        """Return the view of one node for a pod that already has cards; only the node of these cards fits."""
        if name == held.node:
            return NodeSimulation(name, fits=True, assignment=held.assignment.containers)
        misfit = Misfit(MisfitReason.HELD_ELSEWHERE, detail=held.node)
        sentence = self._dialect.format_misfit(misfit)
        return NodeSimulation(name, fits=False, reason=misfit.reason.value, sentence=sentence, resolvable=True)

    def _build_card_simulations(self, states: Sequence[CardState]) -> Iterator[CardSimulation]:
        for state in states:
            refusals = tuple(
                CardRefusal(container.container, reason.value, describe_card_reason(reason, state, container))
                for container in self._distinct
                if (reason := find_card_reason(state, container)) is not None
            )
            card = state.card
            capacity = None if card.memory_bytes is None else card.capacity_bytes
            yield CardSimulation(card.id, card.model, state.free_bytes, capacity, refusals)


def _build_change(change: Change, cards: dict[str, Card], detail: str) -> ChangeView:
    late, rank, (most, least) = change.order
    return ChangeView(
        change.kind.value,
        describe_change(change, cards, detail),
        order=(int(late), rank, most, least),
        **{name: getattr(change, name) for name in _COPIED_FIELDS},
    )


_COPIED_FIELDS: Final = tuple(set(ChangeView.__struct_fields__) & set(Change.__struct_fields__) - {"kind"})
