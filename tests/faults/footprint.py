"""What the processes take: memory, descriptors, and open watches, which must not grow from one calm to the next."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from faults.checker import Violation

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
# The first calms fill caches and pools. From then on a process may grow by this much over the whole storm.
WARM_UP = 2
MOST_MIB = 60.0
MOST_DESCRIPTORS = 40
MOST_WATCHES = 4
# A client of the API server closes a connection 15 s after the last request on it. Until then, a process that has just
# sent many requests at once holds a connection for each of them, up to 100 for POST and 100 for all other requests.
SETTLE_SECONDS = 30.0


@dataclass(frozen=True)
class Footprint:
    """Of one process; `watches` are those that it has open at the API server."""

    pid: int
    mib: float
    descriptors: int
    watches: int


def read_footprint(pid: int, watches: int) -> Footprint | None:
    """Read what a process takes; None where it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return None
    return Footprint(pid, pages * PAGE_MIB, descriptors, watches)


class Footprints:
    """Compares each process at each calm with what it took when it was warm; one that was started anew begins anew."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], list[Footprint]] = {}

    def compare(self, now: Mapping[str, Footprint]) -> list[Violation]:
        """Return what has grown too much."""
        violations = []
        for name, footprint in now.items():
            seen = self._seen.get((name, footprint.pid), [])
            if len(seen) >= WARM_UP:
                violations += _compare(name, seen[WARM_UP - 1], footprint)
        return violations

    def add(self, now: Mapping[str, Footprint]) -> None:
        """Add what processes take at this calm."""
        for name, footprint in now.items():
            self._seen.setdefault((name, footprint.pid), []).append(footprint)

    def describe(self) -> str:
        """Return the most that each process took."""
        most: dict[str, float] = {}
        for (name, _), seen in self._seen.items():
            most[name] = max(most.get(name, 0.0), *(each.mib for each in seen))
        return ", ".join(f"{name} {mib:.0f} MiB" for name, mib in sorted(most.items()))


def _compare(name: str, warm: Footprint, footprint: Footprint) -> list[Violation]:
    grown = {
        "MiB of memory": (footprint.mib - warm.mib, MOST_MIB),
        "descriptors": (footprint.descriptors - warm.descriptors, MOST_DESCRIPTORS),
        "watches": (footprint.watches - warm.watches, MOST_WATCHES),
    }
    return [
        Violation("footprint_grows", detail=f"{name} ({footprint.pid}) took {amount:.0f} more {what} since it was warm")
        for what, (amount, most) in grown.items()
        if amount > most
    ]
