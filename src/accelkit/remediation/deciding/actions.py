"""Actions on one node in one pass. Each action is one request that can safely be repeated."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelkit.model.pod import PodRef
from accelkit.remediation.deciding.isolation import Taint
from accelkit.remediation.deciding.record import NodeRecord
from accelkit.remediation.deciding.views import HoldReason


@dataclass(frozen=True)
class NodeEvent:
    """An Event for the node."""

    reason: str
    message: str
    warning: bool = True


@dataclass(frozen=True)
class PodEvent:
    """An Event for a pod that holds a failed card."""

    pod: PodRef
    message: str


@dataclass(frozen=True)
class Evict:
    """An eviction, which disruption budgets may refuse."""

    pod: PodRef
    card: str


@dataclass(frozen=True)
class CreateJob:
    """The creation of the Job that resets a card."""

    name: str
    card: str
    reason: str


@dataclass(frozen=True)
class WriteCondition:
    """A write of the node's condition; an empty reason removes the condition."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class WriteNode:
    """A conditional write of the record, the cordon, the repaired cards and the taints of a node in one request.

    Attributes:
        changed: the fields among `cordon`, `repaired` and `taints` that differ from the node's current values.
    """

    record: NodeRecord
    cordon: str | None
    repaired: str | None
    taints: tuple[Taint, ...]
    changed: frozenset[str] = frozenset()


Action = NodeEvent | PodEvent | Evict | CreateJob | WriteCondition | WriteNode


@dataclass(frozen=True)
class Decision:
    """The actions for a node, in order.

    Attributes:
        actions: the actions; each one is carried out only if the previous one succeeded.
        begun: cards whose remediation begins.
        lifted: cards whose isolation is lifted, with the seconds since their isolation according to the record.
        dismissed: cards whose cordon an administrator removed.
        hold: the reason why no action is taken; empty if there is none.
    """

    actions: tuple[Action, ...] = ()
    begun: tuple[str, ...] = ()
    lifted: dict[str, float] = field(default_factory=dict)
    dismissed: tuple[str, ...] = ()
    hold: HoldReason = ""
