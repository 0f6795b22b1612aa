"""What a pod meets on each node; nodes that are alike are asked about once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.situations import describe_likeness, take_situation
from accelkit.model.assignment import Assignment, Share
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.probe import Probe, finish
from accelkit.placement.changes.search import search_changes
from accelkit.placement.changes.situation import Situation, Terms
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import Policy

TOO_COMPLEX = Misfit(MisfitReason.TOO_COMPLEX, resolvable=False)


@dataclass(slots=True)
class Outcome:
    """What a pod meets on a node and on those like it.

    Attributes:
        placed: the cards that bind would choose, or why there are none.
        situation: of the first node; None where its cards are not known.
        changes: what would let the pod in, on the first node.
        search: finds further ones; None before it has begun.
        ended: whether there are no further ones.
    """

    placed: Assignment | Misfit
    situation: Situation | None = None
    changes: list[Change] = field(default_factory=list)
    search: Iterator[Change | None] | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """One node: what the pod meets there, and the node as it was then; None where its cards are not known."""

    name: str
    outcome: Outcome
    situation: Situation | None

    @property
    def assignment(self) -> Assignment | None:
        """The cards of this node that bind would choose; None where the pod does not fit."""
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
        """Return what would let the pod in on this node."""
        if self.situation is self.outcome.situation or self.situation is None or self.outcome.situation is None:
            return self.outcome.changes
        names = self._translate_cards()
        theirs = [holder.pod for holder in self.outcome.situation.holders]
        pods = dict(zip(theirs, (holder.pod for holder in self.situation.holders), strict=True))
        return [
            msgspec.structs.replace(
                change,
                cards=tuple(names[card] for card in change.cards),
                taken=tuple(names[card] for card in change.taken),
                pods=tuple(sorted((pods[pod] for pod in change.pods), key=str)),
            )
            for change in self.outcome.changes
        ]

    def _translate_cards(self) -> Mapping[str, str]:
        if self.situation is None or self.outcome.situation is None:
            return {}
        theirs = (state.card.id for state in self.outcome.situation.states)
        return dict(zip(theirs, (state.card.id for state in self.situation.states), strict=True))


class Judge:
    """Asks for the outcomes of one pod.

    Args:
        request: what the pod asks for.
        policy: the cluster's, with which bind chooses cards.
        budget: what the decisions on all nodes may search together, as in filter.
    """

    def __init__(self, request: PodRequest, policy: Policy, budget: Budget) -> None:
        self._request, self._policy, self._budget = request, policy, budget
        self._by_likeness: dict[object, Outcome] = {}

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcomes that differ, in the order in which they were met."""
        return list(self._by_likeness.values())

    def judge(self, ledger: Ledger, entry: NodeEntry) -> Judged:
        """Decide on one node, as filter and bind do."""
        if entry.problem is not None:
            key: object = (entry.name, entry.problem)
            situation = None
        else:
            key, situation = describe_likeness(entry, self._request), take_situation(entry)
        outcome = self._by_likeness.get(key)
        if outcome is None:
            outcome = Outcome(self._place(ledger, entry), situation)
            self._by_likeness[key] = outcome
        return Judged(entry.name, outcome, situation)

    def _place(self, ledger: Ledger, entry: NodeEntry) -> Assignment | Misfit:
        if entry.problem is None and self._budget.is_spent():
            return TOO_COMPLEX
        return ledger.place(entry, self._request, self._policy, self._budget)


def begin_search(outcome: Outcome, request: PodRequest, policy: Policy, terms: Terms, budget: Budget) -> None:
    """Let an outcome's search for changes begin, where its cards are known."""
    if outcome.situation is not None:
        outcome.search = search_changes(outcome.situation, request, policy, terms, budget)


def find_change_of_node(
    entry: NodeEntry, misfit: Misfit, request: PodRequest, policy: Policy, budget: Budget
) -> list[Change]:
    """Return what has to be done on a node that takes no new share, whatever is asked for."""
    match misfit.reason:
        case MisfitReason.NO_INVENTORY:
            return [Change(ChangeKind.SHARED, proven=False)]
        case MisfitReason.BAD_INVENTORY:
            return [Change(ChangeKind.INVENTORY, proven=False)]
        case MisfitReason.UNIT:
            taken = finish(Probe(policy, budget).ask(entry.list_card_states(), request))
            return [Change(ChangeKind.UNIT, taken=taken)] if taken else []
        case _:
            return []


def _rename(share: Share, names: Mapping[str, str]) -> Share:
    return msgspec.structs.replace(share, card=names.get(share.card, share.card))
