"""What may be done on one node in one pass; each is one request, and harmless when it is repeated."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelkit.model.pod import PodRef
from accelkit.remediation.deciding.isolation import SeenTaint
from accelkit.remediation.deciding.record import NodeRecord


@dataclass(frozen=True)
class TellNode:
    """An Event of the node."""

    reason: str
    message: str
    warning: bool = True


@dataclass(frozen=True)
class TellPod:
    """An Event of a pod that holds a failed card."""

    pod: PodRef
    message: str


@dataclass(frozen=True)
class Evict:
    """An eviction, where budgets allow it."""

    pod: PodRef
    card: str


@dataclass(frozen=True)
class CreateJob:
    """The Job that resets a card."""

    name: str
    card: str
    reason: str


@dataclass(frozen=True)
class WriteCondition:
    """The node's condition: unhealthy for a reason, or gone where that is empty."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class WriteNode:
    """Record, cordon, word of mended cards and taints in one request, as long as the node is the same version.

    Attributes:
        changed: whether each of `cordon`, `mended` and `taints` differs from what is there.
    """

    record: NodeRecord
    cordon: str | None
    mended: str | None
    taints: tuple[SeenTaint, ...]
    changed: frozenset[str] = frozenset()


Action = TellNode | TellPod | Evict | CreateJob | WriteCondition | WriteNode


@dataclass(frozen=True)
class Decision:
    """What is to be done on a node, in this order.

    Attributes:
        actions: each after the one before it was done.
        begun: cards whose remediation begins.
        lifted: cards for which all was taken back, with the seconds since they were isolated, as the record has it.
        dismissed: cards whose cordon a person took away.
        hold: why nothing is done; empty where nothing keeps us.
    """

    actions: tuple[Action, ...] = ()
    begun: tuple[str, ...] = ()
    lifted: dict[str, float] = field(default_factory=dict)
    dismissed: tuple[str, ...] = ()
    hold: str = ""
