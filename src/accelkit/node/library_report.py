"""Report on the vendor libraries that a node agent uses, in log lines, a metric and the inventory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from accelkit.node.discovery import Library
from accelkit.node.metrics import Metrics

log = logging.getLogger(__name__)

# The dynamic linker's messages may be long, and the size of the inventory is limited.
_MAX_PROBLEM: Final = 500


class LibraryReport:
    """The most recently reported libraries, and the metric that reports them.

    Args:
        metrics: the metrics of the agent.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._reported: Mapping[str, tuple[Library, ...]] = {}

    def update(self, libraries: Mapping[str, tuple[Library, ...]]) -> tuple[str, ...]:
        """Report the libraries of each vendor if they have changed; return the problems with the libraries."""
        problems = tuple(
            f"library {each.name} of {vendor} is {each.state}: {each.reason}"[:_MAX_PROBLEM]
            for vendor, found in sorted(libraries.items())
            for each in found
            if each.reason
        )
        if libraries == self._reported:
            return problems
        self._metrics.libraries.clear()
        for vendor, found in libraries.items():
            for each in found:
                self._metrics.libraries.labels(vendor, each.name, each.state, each.path or "", each.version or "").set(
                    1
                )
                if each not in self._reported.get(vendor, ()):
                    log.log(logging.WARNING if each.reason else logging.INFO, "%s", _describe(vendor, each))
        self._reported = dict(libraries)
        return problems


def _describe(vendor: str, library: Library) -> str:
    where = f" at {library.path}" if library.path else ""
    version = f" version {library.version}" if library.version else ""
    reason = f": {library.reason}" if library.reason else ""
    return f"library {library.name} of {vendor} {library.state}{where}{version}{reason}"
