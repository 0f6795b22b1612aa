"""Health monitor for all cards of a node."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.model.card import Health
from accelkit.node.discovery import FoundCard
from accelkit.node.health.card_history import CardHistory
from accelkit.node.health.faults import Fault
from accelkit.node.health.signals import read_signals
from accelkit.vendors.profiles import PciDiscovery

log = logging.getLogger(__name__)


class HealthChecks(StrEnum):
    """The sources that determine the health of cards: all sources, only the host's files, or none."""

    ALL = "all"
    FILES = "files"
    NONE = "none"


class HealthMonitor:
    """Health monitor for a node's cards. It makes one observation at a time.

    Args:
        root: the host's root folder.
        nodes: returns the paths of a card's own device nodes.
        checks: the sources to use.
        reported: returns the XIDs that the driver reported since the previous call, by the ID of the card or of the
            card that contains it; empty if the driver is not queried.
        clock: a monotonic clock in seconds.
    """

    def __init__(
        self,
        root: Path,
        *,
        nodes: Callable[[FoundCard], Sequence[str]],
        checks: HealthChecks = HealthChecks.ALL,
        reported: Callable[[], Mapping[str, Sequence[int]]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checks = checks
        self._reported = reported if checks is HealthChecks.ALL else dict
        self._root = root
        self._nodes = nodes
        self._clock = clock
        self._histories: dict[str, CardHistory] = {}
        self._lock = threading.Lock()
        self._xids: list[tuple[str, int]] = []

    def observe(self, cards: Sequence[FoundCard]) -> Mapping[str, tuple[Health, str]]:
        """Read the signals of the cards; return the health of each card, with the reason if it is not healthy.

        This call may block.
        """
        if self._checks is HealthChecks.NONE:
            return {}
        reported, now = self._reported(), self._clock()
        with self._lock:
            self._xids += [(card, xid) for card, xids in reported.items() for xid in xids]
            # An XID of a card applies to all of its parts.
            names = {each.card.id: (each.card.id, each.part_of or "") for each in cards}
            return {
                each.card.id: self._observe_card(
                    each, now, [xid for name in names[each.card.id] for xid in reported.get(name, ())]
                )
                for each in cards
            }

    def list_faults(self) -> Mapping[str, str]:
        """Return the faults by card ID, in the format that `remember_fault` accepts."""
        with self._lock:
            return {card: str(history.fault) for card, history in self._histories.items() if history.fault}

    def remember_fault(self, card: str, fault: str) -> None:
        """Restore the fault of a card that has not been observed yet."""
        with self._lock:
            self._histories.setdefault(card, CardHistory(fault=Fault.parse(fault)))

    def clear_fault(self, card: str) -> bool:
        """Clear the fault of a card that was declared repaired; return whether the card had a fault."""
        with self._lock:
            history = self._histories.get(card)
            if history is None or history.fault is None:
                return False
            history.fault = None
            return True

    def take_xids(self) -> Sequence[tuple[str, int]]:
        """Return the XIDs since the previous call, with their cards."""
        with self._lock:
            xids, self._xids = self._xids, []
        return xids

    def _observe_card(self, each: FoundCard, now: float, xids: Sequence[int]) -> tuple[Health, str]:
        history = self._histories.setdefault(each.card.id, CardHistory())
        before = history.health
        defect = _find_foreign_driver(each)
        paths: Sequence[str] = ()
        try:
            paths = self._nodes(each)
        except DevicePluginError as exc:
            # Containers cannot use a card with a foreign driver, so the extender must not place pods on it.
            defect = defect or str(exc)
        history.observe(read_signals(self._root, each.card.bdf or None, paths), now, xids=xids, defect=defect)
        if history.health is not before:
            log.warning(
                "changed health card=%s health=%s%s",
                each.card.id,
                history.health,
                f" reason={history.reason}" if history.reason else "",
            )
        return history.health, history.reason


def _find_foreign_driver(each: FoundCard) -> str | None:
    """Return the reason why the card's driver cannot serve containers; None if it can, or if it is unknown."""
    discovery = each.profile.discovery
    drivers = discovery.drivers if isinstance(discovery, PciDiscovery) else ()
    if not each.driver or not drivers or each.driver in drivers:
        return None
    return f"the driver {each.driver} is bound to the card, which is not the vendor's ({', '.join(drivers)})"
