"""Finds nodes that have more to give than before: cards that came back, released shares, a changed unit."""

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
    """Compares each node of a ledger with what it had to give at the last look.

    Looks are apart, so a share that moves from one pod to another within one event of the API server is no change. But
    the end of a pod that was bound is one, also where no look has seen it.

    Args:
        ledger: read alone, but for corrections that are over.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._tick = -1
        self._epoch = 0
        self._errors = OnceReporter(log, logging.ERROR)
        # With how many pods had ended there.
        self._offers: dict[str, tuple[int, _Offer]] = {}

    def find(self) -> list[str]:
        """Return the nodes that have more to give than at the last look, or other cards."""
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
            self._errors.report(entry.name, f"what node {entry.name} has to give cannot be compared", error=exc)
            return False

    def _gained(self, entry: NodeEntry) -> bool:
        (ended, before), now = self._offers.get(entry.name, (0, _NOTHING)), _offer(entry)
        self._offers[entry.name] = entry.ended, now
        # A pod may have come and gone since the last look, and another been refused meanwhile.
        return any(ended != entry.ended or _more(before.get(card), state) for card, state in now.items())


def _offer(entry: NodeEntry) -> _Offer:
    if entry.refusal is not None:
        return _NOTHING
    return {state.card.id: state for state in entry.list_card_states() if state.card.placeable}


def _more(before: CardState | None, now: CardState) -> bool:
    # Constraints of pods may name anything of a card, so one that is described otherwise may fit where it did not.
    return (
        before is None
        or before.card != now.card
        or now.free_bytes > before.free_bytes
        or now.free_compute > before.free_compute
        or now.empty > before.empty
        or any(amount > dict(before.free_amounts).get(name, 0) for name, amount in now.free_amounts)
        or now.reserved != before.reserved
    )
