"""The health of all cards of a node."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from accelkit.errors import DevicePluginError
from accelkit.model.card import Health
from accelkit.node.discovery import FoundCard
from accelkit.node.health.signals import look
from accelkit.node.health.verdict import CardHistory
from accelkit.vendors.profiles import PciDiscovery

log = logging.getLogger(__name__)

# The switch of GCUShare's and NVIDIA's device plugins is understood too.
SWITCHES = ("ACCELKIT_DISABLE_HEALTH", "DP_DISABLE_HEALTHCHECKS")
_OFF = frozenset({"all", "true", "1"})


class HealthMonitor:
    """Looks at the cards again and again.

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
        return {each.card.id: self._see(each, now, reported.get(each.card.id, "")) for each in cards}

    def _see(self, each: FoundCard, now: float, reported: str) -> tuple[Health, str]:
        history = self._histories.setdefault(each.card.id, CardHistory())
        before = history.health
        wrong = _foreign_driver(each)
        paths: Sequence[str] = ()
        try:
            paths = self._nodes(each)
        except DevicePluginError as exc:
            # Nobody can be given it, so nobody must be sent there.
            wrong = wrong or str(exc)
        history.see(look(self._root, each.card.bdf, paths), now, reported=reported, wrong=wrong)
        if history.health is not before:
            log.warning(
                "card %s is %s%s", each.card.id, history.health, f": {history.reason}" if history.reason else ""
            )
        return history.health, history.reason


def _foreign_driver(each: FoundCard) -> str:
    discovery = each.profile.discovery
    drivers = discovery.drivers if isinstance(discovery, PciDiscovery) else ()
    if not each.driver or not drivers or each.driver in drivers:
        return ""
    return f"the driver {each.driver} has it, which is not the vendor's ({', '.join(drivers)})"
