"""State of a node at one point in time, with all data that determines the next step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from accelkit.model.card import Card
from accelkit.model.pod import PodRef
from accelkit.model.stage import StageRecord
from accelkit.remediation.deciding.isolation import NodeCondition, Taint
from accelkit.remediation.deciding.record import NodeRecord

# Reasons why no action is taken on a node because its state is unknown.
_Unknown = Literal["RecordUnreadable", "NodeNotReady", "AgentAway", "InventoryUnknown"]
HoldReason = Literal["", _Unknown, "NodeCordoned", "Breaker", "LimitReached", "Refused"]


class JobState(StrEnum):
    """States of a Job."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True)
class PodWithCard:
    """A pod that uses a card.

    Attributes:
        pod: the reference to the pod.
        priority: the priority of the pod.
        stays: whether the pod cannot be evicted, because it is static, unreadable, or already being deleted.
    """

    pod: PodRef
    priority: int = 0
    stays: bool = False


@dataclass(frozen=True)
class RemediationNode:
    """The state of a node.

    Attributes:
        cards: the cards in the inventory of the node; None if they are unknown.
        record: the record of the node; None if it is unreadable.
        holders: the pods that use each card, by card ID.
        unplaced: the pods that use unknown cards.
        observed: the cards that are allocated by the kubelet or used by a process, according to the node agent; None if
            they are unknown.
        ready: whether the kubelet of the node is ready.
        watched: whether the node agent is ready. Otherwise, the data about cards may be out of date.
        unschedulable: whether the whole node is cordoned.
        jobs: the states of the Jobs in the record that exist, by Job name.
        stages: the recorded results of the stages; None if they are unreadable.
    """

    name: str
    uid: str
    version: str
    cards: tuple[Card, ...] | None
    record: NodeRecord | None
    cordon: str | None = None
    repaired: str | None = None
    taints: tuple[Taint, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    holders: Mapping[str, tuple[PodWithCard, ...]] = field(default_factory=dict)
    unplaced: tuple[PodWithCard, ...] = ()
    observed: frozenset[str] | None = None
    ready: bool = False
    watched: bool = False
    unschedulable: bool = False
    jobs: Mapping[str, JobState] = field(default_factory=dict)
    stages: StageRecord | None = None
    boot_id: str = ""

    @property
    def obstacle(self) -> HoldReason:
        """The reason why no decision is possible; empty if all required data is known."""
        if self.record is None:
            return "RecordUnreadable"
        if not self.ready:
            return "NodeNotReady"
        if not self.watched:
            return "AgentAway"
        return "InventoryUnknown" if self.cards is None else ""

    def is_free(self, card: str) -> bool:
        """Return whether a card is known not to be in use."""
        held = self.holders.get(card) or self.unplaced
        return not held and self.observed is not None and card not in self.observed
