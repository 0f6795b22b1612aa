"""Judges all nodes for one shape of request, and keeps the verdicts while the nodes do not change.

Pods come in shapes: the replicas of a Deployment ask for the same. The first of a shape is judged on every node, later
ones only where nodes changed since. Simple shapes are judged by the table; others node by node with `fit.place`, once
for each distinct state of cards.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import compress
from typing import Final

from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.table import FITS, FULL, NEVER, PROBLEM, is_simple
from accelkit.model.assignment import Assignment
from accelkit.model.request import PodRequest
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import Policy

FITTING: Final = -1

_SHAPES = 32
_STATES = 20_000


@dataclass(slots=True)
class ShapeVerdict:
    """The nodes that fit, and why each of the others does not; a node in neither is unknown to the ledger.

    Sets and dictionaries by name, since a scheduler asks by name, thousands at a time; reasons are few and known by
    their number in `reasons`.
    """

    fits: set[str] = field(default_factory=set)
    failing: dict[str, int] = field(default_factory=dict)
    reasons: list[Misfit] = field(default_factory=list)
    tick: int = -1
    by_state: dict[object, int] = field(default_factory=dict)

    def assign_number(self, misfit: Misfit) -> int:
        """Return a reason's number."""
        if misfit not in self.reasons:
            self.reasons.append(misfit)
        return self.reasons.index(misfit)

    def put(self, node: str, number: int) -> None:
        """Note the verdict on one node: a reason's number, or FITTING."""
        if number == FITTING:
            self.fits.add(node)
            self.failing.pop(node, None)
        else:
            self.fits.discard(node)
            self.failing[node] = number


class ShapeVerdicts:
    """The verdicts of the shapes asked about last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._shapes: OrderedDict[tuple[PodRequest, Policy], ShapeVerdict] = OrderedDict()

    def judge(self, request: PodRequest, policy: Policy) -> ShapeVerdict:
        """Return the verdict on every node the ledger knows, as of now; callers change nothing."""
        key = (request, policy)
        verdict = self._shapes.get(key)
        if verdict is None:
            verdict = self._shapes[key] = ShapeVerdict()
            if len(self._shapes) > _SHAPES:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
        tick = self._ledger.table.tick
        if verdict.tick != tick:
            if is_simple(request):
                self._judge_simple(verdict, request)
            else:
                self._judge_each(verdict, request, policy)
            verdict.tick = tick
        return verdict

    def _judge_simple(self, verdict: ShapeVerdict, request: PodRequest) -> None:
        container, table = request.containers[0], self._ledger.table
        if container.whole:
            reason = MisfitReason.WHOLE_CARDS
        else:
            reason = MisfitReason.MEMORY if container.cards == 1 else MisfitReason.MEMORY_CARDS
        numbers = {
            FITS: FITTING,
            FULL: verdict.assign_number(Misfit(reason, container.cards)),
            NEVER: verdict.assign_number(Misfit(reason, container.cards, resolvable=False)),
        }
        rows = table.find_changed_rows(verdict.tick)
        codes = table.judge(request, rows)
        names = self._ledger.list_node_names()
        if len(rows) == len(names):
            # A new shape: whole columns at once, since one node after the other takes ten times as long.
            verdict.failing.clear()
            verdict.fits = set(compress(names, (codes == FITS).tolist()))
            for code in (FULL, NEVER):
                verdict.failing.update(dict.fromkeys(compress(names, (codes == code).tolist()), numbers[code]))
            rows, codes = rows[codes == PROBLEM], codes[codes == PROBLEM]
        for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
            entry = self._ledger.find_node_at(row)
            verdict.put(entry.name, verdict.assign_number(entry.problem) if entry.problem else numbers[code])

    def _judge_each(self, verdict: ShapeVerdict, request: PodRequest, policy: Policy) -> None:
        if len(verdict.by_state) > _STATES:
            verdict.by_state.clear()
        for row in self._ledger.table.find_changed_rows(verdict.tick).tolist():
            entry = self._ledger.find_node_at(row)
            verdict.put(entry.name, self._number(verdict, request, policy, entry))

    def _number(self, verdict: ShapeVerdict, request: PodRequest, policy: Policy, entry: NodeEntry) -> int:
        if entry.problem is not None:
            return verdict.assign_number(entry.problem)
        key = _state_key(entry)
        if key not in verdict.by_state:
            placed = self._ledger.place(entry, request, policy)
            verdict.by_state[key] = FITTING if isinstance(placed, Assignment) else verdict.assign_number(placed)
        return verdict.by_state[key]


def _state_key(entry: NodeEntry) -> tuple[object, ...]:
    # Identities do not matter for whether a pod fits, unless links name them.
    linked = any(card.links for card in entry.list_cards())
    return tuple(
        (
            *(state.free_bytes, state.free_compute, state.empty, state.card.memory_bytes, state.card.reserved_bytes),
            *(state.card.model, state.card.numa, state.card.placeable, state.card.number),
            *((state.card.id, state.card.links) if linked else ()),
        )
        for state in entry.list_card_states()
    )
