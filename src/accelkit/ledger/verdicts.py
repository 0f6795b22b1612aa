"""Results of evaluating one request shape on all nodes, which are cached until the nodes change.

The pods of a Deployment have requests of the same shape. The first pod of a shape is evaluated on every node, and
subsequent pods only on nodes that have changed since. The table evaluates simple shapes on all nodes at once.
`fit.place` evaluates other shapes once for each distinct state of the cards, only on the nodes in the query, and within
a budget. This evaluation runs in short turns, so that the process can do other work in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import Final

from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.packed_names import PackedNames
from accelkit.ledger.table import FITS, FULL, NEVER, PROBLEM, is_simple
from accelkit.model.assignment import Assignment
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import AnyPolicy
from accelkit.placement.sharing.bars import is_ruled

FITTING: Final = -1

_SHAPES = 32
_STATES = 20_000
_REASONS: Final = 64
# One turn takes a few milliseconds. Each node requires some steps in addition to its search.
_STEPS_PER_TURN: Final = 200
_STEPS_PER_NODE: Final = 2


@dataclass(slots=True)
class ShapeVerdict:
    """The nodes that fit, and the reason for each node that does not fit. Unknown nodes are omitted.

    Sets and dictionaries are keyed by name, because a scheduler sends thousands of names in one call. Many nodes share
    a few reasons, so each reason has a number in `reasons`.

    Attributes:
        stale: the nodes that were never evaluated, or that have changed since; for simple shapes, only nodes with
            reserved cards.
        most_reasons: the number of reasons above which unused reasons are removed.
    """

    request: PodRequest
    policy: AnyPolicy
    fits: set[str] = field(default_factory=set)
    failing: dict[str, int] = field(default_factory=dict)
    reasons: list[Misfit] = field(default_factory=list)
    stale: set[str] = field(default_factory=set)
    tick: int = -1
    epoch: int = 0
    by_state: dict[object, int] = field(default_factory=dict)
    most_reasons: int = _REASONS

    def assign_number(self, misfit: Misfit) -> int:
        """Return the number of a reason; assign a new number to a new reason."""
        if misfit not in self.reasons:
            self.reasons.append(misfit)
        return self.reasons.index(misfit)

    def drop_unused(self) -> None:
        """Remove the reasons that no longer apply to any node.

        Otherwise, reasons that contain details of nodes would accumulate.
        """
        if len(self.reasons) <= self.most_reasons:
            return
        used = sorted({*self.failing.values(), *self.by_state.values()} - {FITTING})
        places = {number: place for place, number in enumerate(used)} | {FITTING: FITTING}
        self.reasons = [self.reasons[number] for number in used]
        self.failing = {name: places[number] for name, number in self.failing.items()}
        self.by_state = {state: places[number] for state, number in self.by_state.items()}
        # Increase the limit, so that the list is not searched after each change if every node has a different reason.
        self.most_reasons = _REASONS + 2 * len(used)

    def discard_nodes(self) -> None:
        """Discard the results for all nodes, but not the results for states of cards."""
        self.fits, self.failing, self.stale, self.tick = set(), {}, set(), -1

    def put(self, node: str, number: int) -> None:
        """Set the result for one node, which is the number of a reason or FITTING."""
        if number == FITTING:
            self.fits.add(node)
            self.failing.pop(node, None)
        else:
            self.fits.discard(node)
            self.failing[node] = number


class ShapeVerdicts:
    """Results for the request shapes of the most recent queries."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._names = PackedNames(ledger)
        self._shapes: OrderedDict[tuple[PodRequest, AnyPolicy], ShapeVerdict] = OrderedDict()

    def judge(self, request: PodRequest, policy: AnyPolicy) -> ShapeVerdict:
        """Return the current result for every node of the ledger, except for the stale nodes.

        Callers must not change the result. `judge_stale` evaluates the stale nodes.
        """
        self._ledger.end_corrections()
        request = self._ledger.resolve(request)
        key = (request, policy)
        verdict = self._shapes.get(key)
        if verdict is None:
            verdict = self._shapes[key] = ShapeVerdict(request, policy)
            if len(self._shapes) > _SHAPES:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
        tick, epoch = self._ledger.table.tick, self._ledger.table.epoch
        if verdict.epoch != epoch:
            verdict.discard_nodes()
            verdict.epoch = epoch
        if verdict.tick != tick:
            verdict.drop_unused()
            if is_simple(request):
                self._judge_simple(verdict, request)
            else:
                rows = self._ledger.table.find_changed_rows(verdict.tick).tolist()
                entries = (self._ledger.find_node_at(row) for row in rows)
                verdict.stale.update(entry.name for entry in entries if entry is not None)
            if len(verdict.by_state) > _STATES:
                verdict.by_state.clear()
            verdict.tick = tick
        return verdict

    def judge_stale(self, verdict: ShapeVerdict, names: Iterable[str], budget: Budget) -> Iterator[None]:
        """Evaluate the stale nodes among the given nodes, and yield after each turn. The ledger may change in between.

        When the budget is spent, the result for the remaining nodes is TOO_COMPLEX. These nodes remain stale, so that
        the next call evaluates them.
        """
        turn = _STEPS_PER_TURN
        for name in [name for name in names if name in verdict.stale]:
            entry = self._ledger.find_node(name)
            # Another caller may have evaluated the node in the meantime.
            if entry is None or name not in verdict.stale:
                continue
            before = budget.steps
            number = self._number(verdict, entry, budget)
            if number is None:
                number = verdict.assign_number(Misfit(MisfitReason.TOO_COMPLEX, resolvable=False))
            else:
                verdict.stale.discard(name)
            verdict.put(name, number)
            turn -= before - budget.steps + _STEPS_PER_NODE
            if turn <= 0:
                turn = _STEPS_PER_TURN
                yield

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
        if container.closed:
            self._leave_reserved(verdict, rows.tolist())
        codes = table.judge(request, rows)
        if verdict.tick < 0:
            # A new shape is evaluated on entire columns, because it takes ten times as long to evaluate one node at a
            # time.
            names = self._names.list_names()
            verdict.fits = set(compress(names, (codes == FITS).tolist()))
            for code in (FULL, NEVER):
                verdict.failing.update(dict.fromkeys(compress(names, (codes == code).tolist()), numbers[code]))
            rows, codes = rows[codes == PROBLEM], codes[codes == PROBLEM]
        for row, code in zip(rows.tolist(), codes.tolist(), strict=True):
            if (entry := self._ledger.find_node_at(row)) is not None:
                verdict.put(entry.name, verdict.assign_number(entry.refusal) if entry.refusal else numbers[code])

    def _leave_reserved(self, verdict: ShapeVerdict, rows: list[int]) -> None:
        """Mark the nodes with reserved cards as stale, because the table does not contain reservations."""
        reserved = self._ledger.reserved_nodes
        verdict.stale &= reserved
        names = self._ledger.list_node_names()
        verdict.stale |= reserved if verdict.tick < 0 else {name for row in rows if (name := names[row]) in reserved}

    def _number(self, verdict: ShapeVerdict, entry: NodeEntry, budget: Budget) -> int | None:
        """Return FITTING or the number of the reason why a request does not fit; None if the budget is spent."""
        if (refusal := entry.refusal) is not None:
            return verdict.assign_number(refusal)
        key = describe_state(entry, verdict.request)
        if key not in verdict.by_state:
            if budget.is_spent():
                return None
            placed = self._ledger.place(entry, verdict.request, verdict.policy, budget)
            if isinstance(placed, Assignment):
                verdict.by_state[key] = FITTING
            elif placed.reason is MisfitReason.TOO_COMPLEX and budget.is_spent():
                return None
            else:
                verdict.by_state[key] = verdict.assign_number(placed)
        return verdict.by_state[key]


def describe_state(entry: NodeEntry, request: PodRequest) -> tuple[object, ...]:
    """Return a key of all data that affects whether a request fits a node's cards."""
    # Card identities do not affect whether a pod fits, unless links refer to them. In that case, card positions are
    # relevant.
    links: list[object] = []
    if any(container.link for container in request.containers):
        places = {card.id: place for place, card in enumerate(entry.list_cards())}
        links = [tuple((places.get(link.to), link.kind) for link in card.links) for card in entry.list_cards()]
    if any(container.groups for container in request.containers):
        links.append(entry.find_links())
    if any(container.amounts for container in request.containers):
        links += [(state.free_amounts, state.card.amounts) for state in entry.list_card_states()]
    states = entry.list_states_for(request)
    if ruled := [container for container in request.containers if is_ruled(container)]:
        links += [(*map(state.find_bar, ruled), state.reserved) for state in states]
    return (
        *links,
        *(
            (
                *(
                    state.free_bytes,
                    state.free_compute,
                    state.empty,
                    state.card.memory_bytes,
                    state.card.reserved_bytes,
                ),
                *(state.card.model, state.card.numa, state.card.placeable, state.card.number),
                state.card.memory_factor,
            )
            for state in states
        ),
    )
