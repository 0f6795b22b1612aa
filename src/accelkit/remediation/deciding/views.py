"""What was seen of one node at one moment: all that the next step is decided by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from accelkit.model.card import Card
from accelkit.model.pod import PodRef
from accelkit.model.stage import StageRecord
from accelkit.remediation.deciding.isolation import SeenCondition, SeenTaint
from accelkit.remediation.deciding.record import NodeRecord


class JobState(StrEnum):
    """How far a Job has come."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class Holder:
    """A pod that holds a card.

    Attributes:
        pod: which.
        priority: as admission wrote it.
        stays: whether an eviction is of no use: a kubelet runs it from a file, or it is leaving.
    """

    pod: PodRef
    priority: int = 0
    stays: bool = False


@dataclass(frozen=True)
class NodeView:
    """One node.

    Attributes:
        cards: by its agent; None where they are not known.
        record: None where it cannot be read.
        holders: pods by the card that they hold.
        unplaced: pods that hold cards, and nobody knows which.
        observed: cards that the kubelet or a process holds, by the node's agent; None where that is not known.
        ready: whether its kubelet is.
        watched: whether its agent is there, so that the cards are those of now.
        unschedulable: whether somebody has cordoned the whole node.
        jobs: those that were asked for, by name; one that is gone is not there.
        stages: None where they cannot be read.
    """

    name: str
    uid: str
    version: str
    cards: tuple[Card, ...] | None
    record: NodeRecord | None
    cordon: str | None = None
    mended: str | None = None
    taints: tuple[SeenTaint, ...] = ()
    conditions: tuple[SeenCondition, ...] = ()
    holders: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    unplaced: tuple[Holder, ...] = ()
    observed: frozenset[str] | None = None
    ready: bool = False
    watched: bool = False
    unschedulable: bool = False
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    stages: StageRecord | None = None
    boot_id: str = ""

    @property
    def obstacle(self) -> str:
        """Why nothing may be decided of it; empty where all that matters is known."""
        if self.record is None:
            return "RecordUnreadable"
        if not self.ready:
            return "NodeNotReady"
        if not self.watched:
            return "AgentAway"
        return "InventoryUnknown" if self.cards is None else ""

    def is_free(self, card: str) -> bool:
        """Return whether surely nobody holds a card."""
        held = self.holders.get(card) or self.unplaced
        return not held and self.observed is not None and card not in self.observed
