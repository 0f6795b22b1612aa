"""Request and response of the extender's `POST /simulate`."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.assignment import Share
from accelkit.model.pending_pod import PendingPod
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest

SIMULATION_VERSION: Final = 1
# Large enough for a pod's limits and annotations, and thousands of node names.
MAX_QUESTION_BYTES: Final = 256 * 1024
MAX_WITHOUT: Final = 256


class SimulationQuestion(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The request.

    Attributes:
        pod: the pod from the API server, or only the fields that filter reads: limits, annotations, and the UID if the
            pod exists.
        nodes: names of the nodes to simulate; None for all nodes that share cards.
        without: pods that the simulation treats as deleted, as UID or `NAMESPACE/NAME`.
    """

    pod: PendingPod
    nodes: list[str] | None = None
    without: list[str] = []


class CardRefusal(msgspec.Struct, frozen=True, gc=False):
    """The reason why a container cannot get a card, regardless of the other containers."""

    container: str
    reason: str
    sentence: str


class CardSimulation(msgspec.Struct, frozen=True, gc=False):
    """A card of a node on which the pod does not fit.

    `refusals` is empty if the card is sufficient for each container alone. `capacity_bytes` is None if the memory is
    unknown.
    """

    id: str
    model: str
    free_bytes: int
    capacity_bytes: int | None
    refusals: tuple[CardRefusal, ...]


class ChangeView(msgspec.Struct, frozen=True, gc=False):
    """A change after which the pod would fit on the node.

    Attributes:
        kind: the kind of change.
        sentence: the change in words, without its node.
        taken: IDs of the cards that the pod would get after the change; empty if unknown.
        order: the key for sorting the changes of all nodes, smallest first.
        proven: whether this is certainly the smallest change of its kind on this node.
    """

    kind: str
    sentence: str
    container: str
    constraint: str
    before: int
    after: int
    cards: tuple[str, ...]
    pods: tuple[PodRef, ...]
    taken: tuple[str, ...]
    order: tuple[int, int, int, int]
    proven: bool


class NodeSimulation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The result for one node.

    Attributes:
        fits: whether filter would accept the node.
        score: the score from prioritize, 0 to 10; 0 if the pod does not fit.
        assignment: the shares that bind would choose for each container.
        reason: the code of the reason why the pod does not fit.
        sentence: the same reason, as the sentence that filter returns to kube-scheduler.
        resolvable: whether the pod would fit after evictions from the node.
        cards: the cards of a node on which the pod does not fit.
        changes: changes after which the pod would fit, smallest first, at most one of each kind.
        searched: whether the search for changes was complete or found at least one change.
    """

    name: str
    fits: bool
    score: int = 0
    assignment: dict[str, tuple[Share, ...]] | None = None
    reason: str = ""
    sentence: str = ""
    resolvable: bool = False
    cards: tuple[CardSimulation, ...] = ()
    changes: tuple[ChangeView, ...] = ()
    searched: bool = True


class SimulationHead(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a simulation that applies to all nodes.

    Attributes:
        request: the pod's request as read by the extender; empty if the pod requests no card or is refused.
        refusal: the reason why filter refuses the whole request; empty if it does not.
        policy: the policy of the cluster.
        absent: the pods in `without` that hold no card.
        spent: whether the search for changes stopped at its limit.
        group: the pod group with which the pod waits, and the reason; empty if the pod does not wait with a group.
    """

    request: tuple[ContainerRequest, ...] = ()
    refusal: str = ""
    policy: str
    unit_bytes: int
    absent: tuple[str, ...] = ()
    spent: bool = False
    group: str = ""
    version: int = SIMULATION_VERSION


class Simulation(SimulationHead, frozen=True, kw_only=True, gc=False):
    """The extender's current result for a pod, for each node in order."""

    nodes: tuple[NodeSimulation, ...]
