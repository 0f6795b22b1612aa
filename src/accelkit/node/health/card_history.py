"""History of a card's health, with hysteresis. Signals are compared with the signals from the first observation.

A card becomes unhealthy after two bad observations, because a single bad observation may be a reset. It becomes healthy
again after five minutes without a bad observation. A fault does not depend on observations: it persists until the card
is repaired. Unreadable signals are unknown, and never make a healthy card unhealthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from accelkit.model.card import Health
from accelkit.model.card_loss import GONE_FROM_BUS, SILENT_ON_BUS
from accelkit.node.health.faults import Fault
from accelkit.node.health.signals import Signals
from accelkit.vendors.xids import XidAction, find_xid

# Two bad observations in a row are required, so that a brief reset or driver reload does not count.
_MIN_BAD_OBSERVATIONS = 2
# An error counter never decreases, so a card recovers only after some time without new errors. Errors repeat within
# minutes.
_QUIET_SECONDS = 300.0


@dataclass(slots=True)
class CardHistory:
    """The health of one card over time.

    Attributes:
        health: its current health.
        reason: the reason why it is not healthy; empty if it is healthy.
        fault: the fault that requires a repair; None if there is none.
    """

    health: Health = Health.HEALTHY
    reason: str = ""
    fault: Fault | None = None
    _first: Signals | None = None
    _errors: dict[str, int] = field(default_factory=dict)
    _bad_observations: int = 0
    _last_bad: float | None = None

    def observe(self, signals: Signals, now: float, *, xids: Sequence[int] = (), defect: str | None = None) -> None:
        """Update the health according to the signals from one observation.

        Args:
            signals: the signals from this observation.
            now: the time in seconds, from a monotonic clock.
            xids: the errors that the driver reported since the previous observation.
            defect: a sentence that describes a permanent defect of the card; None if there is no defect.
        """
        errors = [*self._list_errors(signals), *([defect] if defect else [])]
        first = self._first or Signals()
        # The first known value of a signal becomes its baseline.
        self._first = Signals(
            present=True if signals.present else first.present,
            driver=first.driver or signals.driver,
            answers=True if signals.answers else first.answers,
            link_width=first.link_width or signals.link_width,
            nodes=first.nodes | signals.nodes,
        )
        self._update_fault(signals.driver_start, xids)
        if errors:
            self._bad_observations += 1
            self._last_bad = now
        if self.fault is not None:
            self.health, self.reason = Health.UNHEALTHY, "; ".join([self.fault.explain(), *errors])
            return
        if errors:
            if self._bad_observations >= _MIN_BAD_OBSERVATIONS:
                self.health, self.reason = Health.UNHEALTHY, "; ".join(errors)
            return
        if self._last_bad is not None and now - self._last_bad < _QUIET_SECONDS and self.health is Health.UNHEALTHY:
            return
        self._bad_observations = 0
        unreadable = signals.unread and signals.present is not True
        if self.health is Health.UNHEALTHY and unreadable:
            return
        self.health = Health.UNKNOWN if unreadable else Health.HEALTHY
        self.reason = f"{', '.join(signals.unread)} cannot be read" if unreadable else ""

    def _update_fault(self, driver_start: str, xids: Sequence[int]) -> None:
        if self.fault is not None and self.fault.is_repaired(driver_start):
            self.fault = None
        # The first XID is the cause of the subsequent XIDs, unless one of the subsequent XIDs requires a replacement.
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
            yield f"the driver {first.driver} is no longer bound to the card"
        elif signals.driver and first.driver and signals.driver != first.driver:
            yield f"the driver {signals.driver} is bound to the card instead of {first.driver}"
        if signals.link_width and first.link_width and signals.link_width < first.link_width:
            yield f"its PCI link uses only {signals.link_width} of {first.link_width} lanes"
        if missing := sorted(first.nodes - signals.nodes):
            yield f"device node {', '.join(missing)} is missing"
        for name, count in sorted(signals.errors.items()):
            before = self._errors.setdefault(name, count)
            if count > before:
                yield f"{count - before} uncorrected errors in {name}"
            self._errors[name] = count
