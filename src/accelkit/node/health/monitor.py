"""Monitors the health of all cards of a node."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.model.card import Health
from accelkit.node.discovery import FoundCard
from accelkit.node.health.card_history import CardHistory
from accelkit.node.health.signals import read_signals
from accelkit.vendors.profiles import PciDiscovery

log = logging.getLogger(__name__)

# The switch of GCUShare's and NVIDIA's device plugins is understood too.
SWITCHES = ("ACCELKIT_DISABLE_HEALTH", "DP_DISABLE_HEALTHCHECKS")
_OFF = frozenset({"all", "true", "1"})


class HealthMonitor:
    """Watches the cards' health, look by look.

    Args:
        root: the host's root folder.
        environ: `ACCELKIT_DISABLE_HEALTH` or `DP_DISABLE_HEALTHCHECKS`: `all` switches everything off, `xids` the
            errors that the driver reports.
        reported: errors that the driver told of since the last call, by card id; nothing where it cannot be asked.
        nodes: paths of a card's own device nodes.
        clock: seconds, never backwards.
    """

    def __init__(
        self,
        root: Path,
        *,
        environ: Mapping[str, str],
        nodes: Callable[[FoundCard], Sequence[str]],
        reported: Callable[[], Mapping[str, str]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        words = {environ.get(switch, "").lower() for switch in SWITCHES}
        self._off = bool(words & _OFF)
        self._reported = dict if "xids" in words else reported
        self._root = root
        self._nodes = nodes
        self._clock = clock
        self._histories: dict[str, CardHistory] = {}

    def observe(self, cards: Sequence[FoundCard]) -> Mapping[str, tuple[Health, str]]:
        """Look at the cards now, which blocks as files do; return the health of each, and why it is not well."""
        if self._off:
            return {}
        reported, now = self._reported(), self._clock()
        return {each.card.id: self._observe_card(each, now, reported.get(each.card.id)) for each in cards}

    def _observe_card(self, each: FoundCard, now: float, reported: str | None) -> tuple[Health, str]:
        history = self._histories.setdefault(each.card.id, CardHistory())
        before = history.health
        defect = _find_foreign_driver(each)
        paths: Sequence[str] = ()
        try:
            paths = self._nodes(each)
        except DevicePluginError as exc:
            # Nobody can be given it, so nobody must be sent there.
            defect = defect or str(exc)
        history.observe(read_signals(self._root, each.card.bdf or None, paths), now, reported=reported, defect=defect)
        if history.health is not before:
            log.warning(
                "card %s is %s%s", each.card.id, history.health, f": {history.reason}" if history.reason else ""
            )
        return history.health, history.reason


def _find_foreign_driver(each: FoundCard) -> str | None:
    """Return why the card's driver cannot serve containers; None where it can, or where nobody knows."""
    discovery = each.profile.discovery
    drivers = discovery.drivers if isinstance(discovery, PciDiscovery) else ()
    if not each.driver or not drivers or each.driver in drivers:
        return None
    return f"the driver {each.driver} has it, which is not the vendor's ({', '.join(drivers)})"
