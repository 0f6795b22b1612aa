"""What `POST /simulate` of the extender takes and answers."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.asked_pod import AskedPod
from accelkit.model.assignment import Share
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest

SIMULATION_VERSION: Final = 1
# A pod's limits and annotations, and thousands of names of nodes.
MAX_QUESTION_BYTES: Final = 256 * 1024
MAX_WITHOUT: Final = 256


class SimulationQuestion(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What would be.

    Attributes:
        pod: as the API server has it, or what filter reads of it: limits, annotations, and the UID where it has one.
        nodes: names of those that are asked about; all that share cards where there are none.
        without: pods that are taken to be gone, each a UID or `NAMESPACE/NAME`.
    """

    pod: AskedPod
    nodes: list[str] | None = None
    without: list[str] = []


class CardRefusal(msgspec.Struct, frozen=True, gc=False):
    """Why a container cannot have a card, all else left aside."""

    container: str
    reason: str
    sentence: str


class CardSimulation(msgspec.Struct, frozen=True, gc=False):
    """A card of a node that the pod does not fit.

    `refusals` is empty where each container for itself could have the card. The memory of a card is None where it is
    not known.
    """

    id: str
    model: str
    free_bytes: int
    capacity_bytes: int | None
    refusals: tuple[CardRefusal, ...]


class ChangeView(msgspec.Struct, frozen=True, gc=False):
    """A change after which the pod would fit the node.

    Attributes:
        kind: what is changed.
        sentence: the change in words, without its node.
        taken: IDs of the cards that the pod would then get; empty where that is not known.
        order: tells which of two changes is the smaller, over all nodes.
        proven: whether no smaller one of its kind exists on this node.
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
    """One node.

    Attributes:
        fits: whether filter lets the pod pass.
        score: what prioritize gives the node, 0 to 10; 0 where the pod does not fit.
        assignment: the shares of each container that bind would choose.
        reason: why the pod does not fit, for programs.
        sentence: the same in the words that filter answers to kube-scheduler.
        resolvable: whether it would fit if others left the node.
        cards: those of a node that it does not fit.
        changes: what would let it in, the smallest first; at most one of each kind.
        searched: whether changes were looked for to the end, or at least one was found.
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
    """What holds of all nodes.

    Attributes:
        request: what the pod asks for, as it was understood; empty where it asks for no card, or is refused.
        refusal: why nothing of it can be granted, in filter's words.
        policy: the cluster's.
        absent: those of `without` that hold no card.
        spent: whether the search for changes ended at its limit.
        group: which pod group the pod waits with, and for what; empty where it does not.
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
    """What the extender would answer now, node by node in their order."""

    nodes: tuple[NodeSimulation, ...]
