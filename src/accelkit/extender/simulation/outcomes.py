"""Results for a pod on each node, computed once for equivalent nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.situations import describe_likeness, take_situation
from accelkit.model.assignment import Assignment, Share
from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.card_state import CardState
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.probe import Probe, finish
from accelkit.placement.changes.search import search_changes
from accelkit.placement.changes.situation import ShareHolder, Terms
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import AnyPolicy

TOO_COMPLEX = Misfit(MisfitReason.TOO_COMPLEX, resolvable=False)


@dataclass(frozen=True, slots=True)
class NodeThen:
    """A node with known cards, in the state for which the result was computed."""

    entry: NodeEntry
    request: PodRequest
    states: Sequence[CardState]

    @property
    def same(self) -> bool:
        """Whether the cards of the node have not changed since the result was computed."""
        return self.entry.list_states_for(self.request) is self.states


@dataclass(slots=True)
class NodeOutcome:
    """Result for a pod on a set of equivalent nodes.

    Attributes:
        placed: the cards that bind would choose, or the reason why the pod does not fit.
        node: the first of these nodes; None if its cards are unknown.
        changes: the changes that would make the pod fit the first node.
        places: for each pod in these changes, its position among the pods that have cards; equivalent nodes have the
            same positions.
        ended: whether the search has ended.
    """

    placed: Assignment | Misfit
    node: NodeThen | None = None
    changes: list[Change] = field(default_factory=list)
    places: dict[PodRef, int] = field(default_factory=dict)
    ended: bool = False
    _holders: Sequence[ShareHolder] = ()
    _search: Iterator[Change | None] | None = None

    @property
    def searching(self) -> bool:
        """Whether a search for changes is in progress."""
        return self._search is not None and not self.ended

    def begin(self, request: PodRequest, policy: AnyPolicy, terms: Terms, budget: Budget) -> None:
        """Start the search for changes if the node has not changed since the result was computed."""
        if self.node is not None and self.node.same:
            situation = take_situation(self.node.entry, request)
            self._holders = situation.holders
            self._search = search_changes(situation, request, policy, terms, budget)

    def try_next(self) -> bool:
        """Run one trial of the search; return whether it found a change."""
        found = self if self._search is None else next(self._search, self)
        if isinstance(found, NodeOutcome):
            self.ended = True
            return False
        if found is None:
            return False
        self.changes.append(found)
        named = set(found.pods)
        self.places |= {each.pod: place for place, each in enumerate(self._holders) if each.pod in named}
        return True

    def stop(self) -> None:
        """Stop the search, and release its data, which needs much memory for many nodes."""
        self._search, self._holders = None, ()


@dataclass(frozen=True, slots=True)
class Judged:
    """Result for a pod on one node, with the state for which it was computed; None if the cards are unknown."""

    name: str
    outcome: NodeOutcome
    node: NodeThen | None

    @property
    def assignment(self) -> Assignment | None:
        """The cards of the node that bind would choose; None if the pod does not fit."""
        placed = self.outcome.placed
        if isinstance(placed, Misfit):
            return None
        names = self._translate_cards()
        return Assignment(
            {
                container: tuple(_rename(share, names) for share in shares)
                for container, shares in placed.containers.items()
            }
        )

    def list_changes(self) -> list[Change]:
        """Return the changes that would make the pod fit the node, except for changes that are outdated."""
        if self.node is None or self.node is self.outcome.node:
            return self.outcome.changes
        names, pods = self._translate_cards(), self._translate_pods()
        return [
            msgspec.structs.replace(
                change,
                cards=tuple(names[card] for card in change.cards),
                taken=tuple(names[card] for card in change.taken),
                pods=tuple(sorted((pods[pod] for pod in change.pods), key=str)),
            )
            for change in self.outcome.changes
            if pods.keys() >= set(change.pods)
        ]

    def _translate_cards(self) -> Mapping[str, str]:
        if self.node is None or self.outcome.node is None:
            return {}
        both = zip(self.outcome.node.states, self.node.states, strict=True)
        return {one.card.id: other.card.id for one, other in both}

    def _translate_pods(self) -> Mapping[PodRef, PodRef]:
        if self.node is None or not self.node.same or not any(change.pods for change in self.outcome.changes):
            return {}
        holders = take_situation(self.node.entry, self.node.request).holders
        return {pod: holders[place].pod for pod, place in self.outcome.places.items()}


class OutcomeCalculator:
    """Computation of the results on all nodes for one pod.

    Args:
        request: the request of the pod.
        policy: the cluster's policy, which bind also uses to choose cards.
        budget: the search steps for the decisions on all nodes together, as in filter.
    """

    def __init__(self, request: PodRequest, policy: AnyPolicy, budget: Budget) -> None:
        self._request, self._policy, self._budget = request, policy, budget
        self._by_likeness: dict[object, NodeOutcome] = {}

    def judge(self, ledger: Ledger, entry: NodeEntry) -> Judged:
        """Return the result for one node, which is the same as in filter and bind."""
        if (refusal := entry.refusal) is not None:
            key: object = (entry.name, refusal)
            node = None
        else:
            key = describe_likeness(entry, self._request)
            node = NodeThen(entry, self._request, entry.list_states_for(self._request))
        outcome = self._by_likeness.get(key)
        if outcome is None:
            outcome = NodeOutcome(self._place(ledger, entry), node)
            self._by_likeness[key] = outcome
        return Judged(entry.name, outcome, node)

    def _place(self, ledger: Ledger, entry: NodeEntry) -> Assignment | Misfit:
        if entry.refusal is None and self._budget.is_spent():
            return TOO_COMPLEX
        return ledger.choose(entry, self._request, self._policy, self._budget)


def find_change_of_node(
    entry: NodeEntry, misfit: Misfit, request: PodRequest, policy: AnyPolicy, budget: Budget
) -> list[Change]:
    """Return the changes that a node needs before it can accept new shares."""
    match misfit.reason:
        case MisfitReason.NO_INVENTORY:
            return [Change(ChangeKind.SHARED, proven=False)]
        case MisfitReason.BAD_INVENTORY:
            return [Change(ChangeKind.INVENTORY, proven=False)]
        case MisfitReason.UNIT:
            taken = finish(Probe(policy, budget).find_cards(entry.list_states_for(request), request))
            return [Change(ChangeKind.UNIT, taken=taken)] if taken else []
        case _:
            return []


def _rename(share: Share, names: Mapping[str, str]) -> Share:
    return msgspec.structs.replace(share, card=names.get(share.card, share.card))
