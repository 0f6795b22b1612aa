"""Detection of nodes with increased free amounts, after cards returned, shares were released, or the unit changed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, TypeAlias

from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.placement.card_state import CardState
from accelkit.reporting import OnceReporter

log = logging.getLogger(__name__)

_Offer: TypeAlias = Mapping[str, CardState]

_NOTHING: Final[_Offer] = {}


class FreedNodes:
    """Comparison of the free amounts of each node in a ledger with the amounts at the previous call.

    A share that moves between pods in one event from the API server is not a change. The termination of a bound pod is
    a change, even if its share was assigned to another pod between two calls.

    Args:
        ledger: the ledger, which is only read, except that corrections are finished after a timeout.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tick = -1
        self._epoch = 0
        self._errors = OnceReporter(log, logging.ERROR)
        # For each node, the number of terminated pods, and the available cards.
        self._offers: dict[str, tuple[int, _Offer]] = {}

    def find(self) -> list[str]:
        """Return the names of the nodes that have larger free amounts or different cards than at the previous call."""
        self._ledger.end_corrections()
        table = self._ledger.table
        if table.tick == self._tick:
            return []
        if table.epoch != self._epoch:
            self._epoch = table.epoch
            self._offers = {name: each for name, each in self._offers.items() if self._ledger.find_node(name)}
        rows, self._tick = table.find_changed_rows(self._tick), table.tick
        entries = map(self._ledger.find_node_at, rows.tolist())
        return [entry.name for entry in entries if entry is not None and self._is_freed(entry)]

    def _is_freed(self, entry: NodeEntry) -> bool:
        try:
            return self._gained(entry)
        except Exception as exc:  # noqa: BLE001 - one node must not end the service
            self._errors.report(entry.name, f"cannot compare the free amounts of node {entry.name}", error=exc)
            return False

    def _gained(self, entry: NodeEntry) -> bool:
        (ended, before), now = self._offers.get(entry.name, (0, _NOTHING)), _list_offered(entry)
        self._offers[entry.name] = entry.ended, now
        # A pod that started and terminated since the previous call may have caused the refusal of another pod.
        return any(ended != entry.ended or _has_more(before.get(card), state) for card, state in now.items())


def _list_offered(entry: NodeEntry) -> _Offer:
    if entry.refusal is not None:
        return _NOTHING
    return {state.card.id: state for state in entry.list_card_states() if state.card.placeable}


def _has_more(before: CardState | None, now: CardState) -> bool:
    # Pods may have constraints on any property of a card, so a pod may fit a card whose properties have changed.
    return (
        before is None
        or before.card != now.card
        or now.free_bytes > before.free_bytes
        or now.free_compute > before.free_compute
        or now.empty > before.empty
        or any(amount > dict(before.free_amounts).get(name, 0) for name, amount in now.free_amounts)
        or now.reserved != before.reserved
    )
