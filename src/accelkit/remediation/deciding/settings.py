"""Settings of remediation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import floor

from accelkit.model.stage import Stage


class Mode(StrEnum):
    """Modes of remediation: no action, reports only, or actions."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"


@dataclass(frozen=True, kw_only=True)
class RemediationSettings:
    """The administrator's settings.

    Attributes:
        mode: the mode.
        max_unavailable: the share of the nodes with cards that may be under remediation at once; at least one node may,
            unless the share is 0.
        trip_share: the share of nodes with cards; if more nodes fail within the window, all remediation stops.
        trip_seconds: the length of the window.
        taint: whether nodes get a taint in addition to the card's cordon.
        drain_seconds: the time limit for evictions before an administrator is called.
        evictions: the maximum number of evictions per card in one pass.
        reset_job: the suspended CronJob with the template of the Job that resets a card; empty for manual repairs.
        repair_seconds: the time limit for the Job, and then for the card to become healthy, before an administrator is
            called.
        healthy_seconds: the time for which a card must be healthy before its isolation is lifted.
        stages: the stages that must pass after the repair.
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
        """Return the maximum number of nodes under remediation at once, given the number of nodes with cards."""
        # The addend prevents rounding of a product such as 0.2 x 15 down to 2.
        return max(1, floor(self.max_unavailable * nodes + 1e-9)) if nodes and self.max_unavailable > 0 else 0
