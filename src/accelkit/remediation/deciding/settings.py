"""Remediation settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import floor

from accelkit.model.stage import Stage


class Mode(StrEnum):
    """Remediation modes: disabled, reports only, or enabled."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ON = "on"


@dataclass(frozen=True, kw_only=True)
class RemediationSettings:
    """The administrator's settings.

    Attributes:
        mode: the mode of remediation.
        max_unavailable: the fraction of the nodes with cards that may be under remediation at the same time. If the
            fraction is greater than 0, the limit is at least one node.
        trip_share: the fraction of the nodes with cards that may fail within the window. If more nodes fail, all
            remediation stops.
        trip_seconds: the duration of the window.
        taint: whether a taint is added to nodes, in addition to the cordon of the card.
        drain_seconds: the time limit for evictions. When it is exceeded, an administrator is called.
        evictions: the maximum number of evictions for each card in one pass.
        reset_job: the name of the suspended CronJob that contains the template for reset Jobs; empty for manual
            repairs.
        repair_seconds: the time limit for the Job, and then for the card to become healthy. When it is exceeded, an
            administrator is called.
        healthy_seconds: the time for which a card must be healthy before its isolation is lifted.
        stages: the stages that must pass after a repair.
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
        """Return the maximum number of nodes under remediation at the same time, if this number of nodes has cards."""
        # The addend ensures that a product such as 0.2 x 15 is not rounded down to 2.
        return max(1, floor(self.max_unavailable * nodes + 1e-9)) if nodes and self.max_unavailable > 0 else 0
