"""Actions for a node in one pass. Each action is a single request that can safely be repeated."""

from __future__ import annotations

from dataclasses import dataclass, field

from accelkit.model.pod import PodRef
from accelkit.remediation.deciding.isolation import Taint
from accelkit.remediation.deciding.record import NodeRecord
from accelkit.remediation.deciding.views import HoldReason


@dataclass(frozen=True)
class NodeEvent:
    """The creation of an Event for the node."""

    reason: str
    message: str
    warning: bool = True


@dataclass(frozen=True)
class PodEvent:
    """The creation of an Event for a pod that uses a failed card."""

    pod: PodRef
    message: str


@dataclass(frozen=True)
class Evict:
    """The eviction of a pod, which disruption budgets may prevent."""

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
    """A write to the condition of the node. An empty reason removes the condition."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class WriteNode:
    """A conditional write to the record, the cordon, the repaired cards and the taints of a node, in one request.

    Attributes:
        changed: the names of those fields among `cordon`, `repaired` and `taints` that differ from the current values.
    """

    record: NodeRecord
    cordon: str | None
    repaired: str | None
    taints: tuple[Taint, ...]
    changed: frozenset[str] = frozenset()


Action = NodeEvent | PodEvent | Evict | CreateJob | WriteCondition | WriteNode


@dataclass(frozen=True)
class Decision:
    """The decision about a node in one pass.

    Attributes:
        actions: the actions, in order. Each action is carried out only if the previous action succeeded.
        begun: the cards whose remediation begins.
        lifted: the cards whose isolation is lifted, with the number of seconds since their isolation according to the
            record.
        dismissed: the cards whose cordon was removed by an administrator.
        hold: the reason why no action is taken; empty if there is none.
    """

    actions: tuple[Action, ...] = ()
    begun: tuple[str, ...] = ()
    lifted: dict[str, float] = field(default_factory=dict)
    dismissed: tuple[str, ...] = ()
    hold: HoldReason = ""
