"""Judges a card's health from its signals over time: what changed for the worse since it was first seen, steadied.

Hysteresis: one bad look may be a card under reset, so it takes two; well again is only who stays well for some minutes.
A fault is no matter of looks: it stays until the card is mended. What cannot be read is unknown, which never makes a
healthy card unhealthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from accelkit.model.card import Health
from accelkit.model.card_loss import GONE_FROM_BUS, SILENT_ON_BUS
from accelkit.node.health.faults import Fault
from accelkit.node.health.signals import Signals
from accelkit.vendors.xids import XidAction, find_xid

# Two looks in a row, so that a reset or a driver's reload of a moment is none.
_BAD_LOOKS = 2
# An error counter stays where it is, so only time tells that nothing more came; repeats come within minutes.
_QUIET_SECONDS = 300.0


@dataclass(slots=True)
class CardHistory:
    """The health of one card over time.

    Attributes:
        health: its health now.
        reason: why it is not healthy.
        fault: what has to be mended; None for nothing.
    """

    health: Health = Health.HEALTHY
    reason: str = ""
    fault: Fault | None = None
    _first: Signals | None = None
    _errors: dict[str, int] = field(default_factory=dict)
    _bad_looks: int = 0
    _last_bad: float | None = None

    def observe(self, signals: Signals, now: float, *, xids: Sequence[int] = (), defect: str | None = None) -> None:
        """Take the signals of one look into account.

        Args:
            signals: those of this look.
            now: seconds, never backwards.
            xids: errors that the driver told of since the last look.
            defect: what is wrong with the card in any case, as a sentence.
        """
        errors = [*self._list_errors(signals), *([defect] if defect else [])]
        first = self._first or Signals()
        # What was not seen yet is a baseline from the day it is.
        self._first = Signals(
            present=True if signals.present else first.present,
            driver=first.driver or signals.driver,
            answers=True if signals.answers else first.answers,
            link_width=first.link_width or signals.link_width,
            nodes=first.nodes | signals.nodes,
        )
        self._note_fault(signals.driver_start, xids)
        if errors:
            self._bad_looks += 1
            self._last_bad = now
        if self.fault is not None:
            self.health, self.reason = Health.UNHEALTHY, "; ".join([self.fault.explain(), *errors])
            return
        if errors:
            if self._bad_looks >= _BAD_LOOKS:
                self.health, self.reason = Health.UNHEALTHY, "; ".join(errors)
            return
        if self._last_bad is not None and now - self._last_bad < _QUIET_SECONDS and self.health is Health.UNHEALTHY:
            return
        self._bad_looks = 0
        unreadable = signals.unread and signals.present is not True
        if self.health is Health.UNHEALTHY and unreadable:
            return
        self.health = Health.UNKNOWN if unreadable else Health.HEALTHY
        self.reason = f"{', '.join(signals.unread)} cannot be read" if unreadable else ""

    def _note_fault(self, driver_start: str, xids: Sequence[int]) -> None:
        if self.fault is not None and self.fault.is_mended(driver_start):
            self.fault = None
        # The first one is the cause of those that follow, unless those cannot be mended as it can.
        for xid in xids:
            action = find_xid(xid).action
            if action is XidAction.REPLACE or (action.harms and self.fault is None):
                self.fault = Fault(xid, driver_start)

    def _list_errors(self, signals: Signals) -> Iterator[str]:
        first = self._first or Signals()
        if signals.present is False and first.present:
            yield GONE_FROM_BUS
        elif signals.answers is False:
            yield SILENT_ON_BUS
        if signals.bound is False and first.driver:
            yield f"the driver {first.driver} is not bound to it any more"
        elif signals.driver and first.driver and signals.driver != first.driver:
            yield f"the driver {signals.driver} has taken it from {first.driver}"
        if signals.link_width and first.link_width and signals.link_width < first.link_width:
            yield f"its PCI link is down to {signals.link_width} of {first.link_width} lanes"
        if missing := sorted(first.nodes - signals.nodes):
            yield f"device node {', '.join(missing)} is missing"
        for name, count in sorted(signals.errors.items()):
            before = self._errors.setdefault(name, count)
            if count > before:
                yield f"{count - before} uncorrected errors in {name}"
            self._errors[name] = count
