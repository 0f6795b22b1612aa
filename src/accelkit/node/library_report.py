"""Tells which libraries of the vendors a node agent uses: one line when that changes, a metric, and the inventory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from accelkit.node.discovery import Library
from accelkit.node.metrics import Metrics

log = logging.getLogger(__name__)

# The inventory has room for many cards, and the dynamic linker may have much to say.
_MAX_PROBLEM: Final = 500


class LibraryReport:
    """What was told last, and of what it is told.

    Args:
        metrics: has the gauge.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: Mapping[str, tuple[Library, ...]] = {}

    def update(self, libraries: Mapping[str, tuple[Library, ...]]) -> tuple[str, ...]:
        """Tell of the libraries by vendor, where they are not as they were; return what is wrong with them."""
        problems = tuple(
            f"library {each.name} of {vendor} is {each.state}: {each.reason}"[:_MAX_PROBLEM]
            for vendor, found in sorted(libraries.items())
            for each in found
            if each.reason
        )
        if libraries == self._told:
            return problems
        self._metrics.libraries.clear()
        for vendor, found in libraries.items():
            for each in found:
                self._metrics.libraries.labels(vendor, each.name, each.state, each.path or "", each.version or "").set(
                    1
                )
                if each not in self._told.get(vendor, ()):
                    log.log(logging.WARNING if each.reason else logging.INFO, "%s", _describe(vendor, each))
        self._told = dict(libraries)
        return problems


def _describe(vendor: str, library: Library) -> str:
    where = f" at {library.path}" if library.path else ""
    version = f" version {library.version}" if library.version else ""
    reason = f": {library.reason}" if library.reason else ""
    return f"library {library.name} of {vendor} {library.state}{where}{version}{reason}"
