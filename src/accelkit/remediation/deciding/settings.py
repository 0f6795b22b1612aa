"""What a person may choose of remediation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import floor

from accelkit.model.stage import Stage


class Mode(StrEnum):
    """Whether failed cards are acted upon: not at all, only told of, or yes."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"


@dataclass(frozen=True, kw_only=True)
class RemediationSettings:
    """What is done, and how much of it at once.

    Attributes:
        mode: whether anything is written.
        max_unavailable: the share of the nodes with cards that may be under remediation at once; at least one node is.
        trip_share: where cards of more than this share of them fail within the window, nothing is done any more.
        trip_seconds: the window.
        taint: whether nodes get a taint beside the card's cordon.
        drain_seconds: how long pods are evicted before a person is told.
        evictions: how many pods of a node are asked to leave in one pass.
        reset_job: the CronJob, suspended, from whose template a Job resets a card; empty where people do it.
        repair_seconds: how long a Job, and then the card, may take before a person is told.
        healthy_seconds: how long a card is seen healthy before what was done is lifted.
        stages: checks that have to pass after the repair.
    """

    mode: Mode = Mode.OFF
    max_unavailable: float = 0.2
    trip_share: float = 0.5
    trip_seconds: float = 300.0
    taint: bool = True
    drain_seconds: float = 900.0
    evictions: int = 10
    reset_job: str = ""
    repair_seconds: float = 3600.0
    healthy_seconds: float = 600.0
    stages: tuple[Stage, ...] = ()

    def count_allowed(self, nodes: int) -> int:
        """Return how many of so many nodes with cards may be under remediation at once."""
        # 0.2 x 15 must not be 2 for the sake of its last bit.
        return max(1, floor(self.max_unavailable * nodes + 1e-9)) if nodes and self.max_unavailable > 0 else 0
