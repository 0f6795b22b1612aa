"""Verdicts on all nodes for one shape of request, kept while the nodes do not change.

Pods come in shapes: the replicas of a Deployment ask for the same. The first of a shape is judged on every node, later
ones only where nodes changed since. Simple shapes are judged by the table; others node by node with `fit.place`,
once for each distinct state of cards.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from accelkit.model.assignment import Assignment
from accelkit.model.request import PodRequest
from accelkit.placement.ledger import Ledger
from accelkit.placement.misfit import Misfit, Reason
from accelkit.placement.policies import Policy
from accelkit.placement.table import FITS, FULL, NEVER, PROBLEM, is_simple

_SHAPES = 64
_STATES = 20_000


@dataclass(slots=True)
class _Cached:
    tick: int = -1
    codes: npt.NDArray[np.int16] = field(default_factory=lambda: np.zeros(0, dtype=np.int16))
    misfits: list[Misfit | None] = field(default_factory=lambda: [None])
    by_state: dict[object, int] = field(default_factory=dict)


class Verdicts:
    """The verdicts of the shapes asked about last."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._shapes: OrderedDict[tuple[PodRequest, Policy], _Cached] = OrderedDict()

    def judge(self, request: PodRequest, policy: Policy) -> tuple[npt.NDArray[np.int16], list[Misfit | None]]:
        """Return a code for each row of the ledger's table, and the misfit of each code; code 0 fits."""
        key = (request, policy)
        cached = self._shapes.get(key)
        if cached is None:
            cached = self._shapes[key] = _Cached()
            if len(self._shapes) > _SHAPES:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(key)
        table = self._ledger.table
        if cached.tick != table.tick or len(cached.codes) != table.rows:
            if is_simple(request):
                self._judge_simple(cached, request)
            else:
                self._judge_each(cached, request, policy)
            cached.tick = table.tick
        return cached.codes, cached.misfits

    def _judge_simple(self, cached: _Cached, request: PodRequest) -> None:
        container = request.containers[0]
        if container.whole:
            reason = Reason.WHOLE_CARDS
        else:
            reason = Reason.MEMORY if container.cards == 1 else Reason.MEMORY_CARDS
        codes = self._ledger.table.judge(request).astype(np.int16)
        misfits: list[Misfit | None] = [None] * PROBLEM
        misfits[FULL] = Misfit(reason, container.cards)
        misfits[NEVER] = Misfit(reason, container.cards, resolvable=False)
        troubled = np.nonzero(codes == PROBLEM)[0]
        if troubled.size:
            cached.misfits = misfits
            for row in troubled.tolist():
                problem = self._ledger.entry_at(row).problem
                codes[row] = _code_of(cached, problem or Misfit(Reason.NO_INVENTORY))
        cached.codes, cached.misfits = codes, misfits

    def _judge_each(self, cached: _Cached, request: PodRequest, policy: Policy) -> None:
        table = self._ledger.table
        codes = np.zeros(table.rows, dtype=np.int16)
        codes[: len(cached.codes)] = cached.codes
        changed = table.changed_at[: table.rows] > cached.tick
        changed[len(cached.codes) :] = True
        rows = np.nonzero(changed)[0]
        if len(cached.by_state) > _STATES:
            cached.by_state.clear()
        for row in rows.tolist():
            codes[row] = self._code(cached, request, policy, row)
        cached.codes = codes

    def _code(self, cached: _Cached, request: PodRequest, policy: Policy, row: int) -> int:
        entry = self._ledger.entry_at(row)
        if entry.problem is not None:
            return _code_of(cached, entry.problem)
        states = entry.states()
        # Card identities do not matter for whether a pod fits, but links name identities.
        key = tuple(
            (
                s.free_bytes,
                s.free_compute,
                s.empty,
                s.card.memory_bytes,
                s.card.reserved_bytes,
                s.card.model,
                s.card.numa,
            )
            + ((s.card.health, s.card.id) if s.card.links else (s.card.health,))
            for s in states
        )
        if key not in cached.by_state:
            placed = self._ledger.place(entry, request, policy)
            cached.by_state[key] = FITS if isinstance(placed, Assignment) else _code_of(cached, placed)
        return cached.by_state[key]


def _code_of(cached: _Cached, misfit: Misfit) -> int:
    if misfit not in cached.misfits:
        cached.misfits.append(misfit)
    return cached.misfits.index(misfit)
