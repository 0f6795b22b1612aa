"""Request and response of the extender endpoint `POST /simulate`."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.model.assignment import Share
from accelkit.model.pending_pod import PendingPod
from accelkit.model.pod import PodRef
from accelkit.model.request import ContainerRequest

SIMULATION_VERSION: Final = 1
# This size is sufficient for a pod's limits and annotations, and thousands of node names.
MAX_QUESTION_BYTES: Final = 256 * 1024
MAX_WITHOUT: Final = 256


class SimulationQuestion(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The request for a simulation.

    Attributes:
        pod: the pod from the API server, or only the fields that filter reads. These fields are the limits, the
            annotations, and the UID if the pod exists.
        nodes: the names of the nodes to simulate; None for all nodes that share cards.
        without: the pods that are considered deleted in the simulation, as UIDs or `NAMESPACE/NAME`.
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
    """A card in a node that the pod does not fit on.

    `refusals` is empty if each container by itself would fit on the card. `capacity_bytes` is None if the memory is
    unknown.
    """

    id: str
    model: str
    free_bytes: int
    capacity_bytes: int | None
    refusals: tuple[CardRefusal, ...]


class ChangeView(msgspec.Struct, frozen=True, gc=False):
    """A change that would make the pod fit on the node.

    Attributes:
        kind: the kind of change.
        sentence: a description of the change, without the node.
        taken: the IDs of the cards that the pod would get after the change; empty if they are unknown.
        order: the key that sorts the changes on all nodes in ascending order of size.
        proven: whether this change is known to be the smallest change of its kind on this node.
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
    """The result of a simulation for one node.

    Attributes:
        fits: whether filter would return the node as suitable.
        score: the score from prioritize, from 0 to 10; 0 if the pod does not fit.
        assignment: the shares that bind would choose for each container.
        reason: the reason code that specifies why the pod does not fit.
        sentence: the reason as a sentence, which filter returns to kube-scheduler.
        resolvable: whether the pod would fit after the eviction of other pods from the node.
        cards: the cards in the node, if the pod does not fit.
        changes: the changes that would make the pod fit, smallest first, with at most one change of each kind.
        searched: whether the search for changes is complete, or has found at least one change.
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
    """The fields of a simulation that apply to all nodes.

    Attributes:
        request: the request of the pod, as read by the extender; empty if the pod does not request cards, or if its
            request is rejected.
        refusal: the reason why filter rejects the request regardless of the node; empty if it does not reject the
            request.
        policy: the cluster's policy.
        absent: the pods in `without` that do not use cards.
        spent: whether the search for changes stopped at its limit.
        group: the reason why the pod's group waits; empty if the pod does not wait as part of a pod group.
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
    """The extender's current result for a pod, which contains an ordered list of the results for each node."""

    nodes: tuple[NodeSimulation, ...]
