"""Explanations of why a pod is pending, in the format of `accelkit explain -o json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.errors import ServiceError
from accelkit.inspection.explanation.extender import Extender
from accelkit.inspection.explanation.pods import PodInQuestion, SchedulerWords
from accelkit.inspection.explanation.sentences import describe_answer, describe_smallest
from accelkit.inspection.inspection import InspectedNode
from accelkit.inspection.simulation import Simulation, SimulationQuestion
from accelkit.model.pod import Pod
from accelkit.model.units import format_bytes
from accelkit.vendors.dialects import list_dialect_names, load_dialects
from accelkit.vendors.pod_reading import PodReader

EXPLANATION_VERSION: Final = 1


class HeldShare(msgspec.Struct, frozen=True):
    """The amounts of a card that are allocated to a container in a bound pod."""

    container: str
    card: str
    model: str
    memory_bytes: int
    whole: bool
    stage: str


class Explanation(msgspec.Struct, frozen=True):
    """The reasons why a pod is pending, or its state if it is not pending.

    Attributes:
        state: `pending`, `bound` or `ended`.
        answer: a sentence that describes the reasons or the state.
        smallest_change: a sentence that describes the smallest change on any node that would make the pod fit; empty if
            the pod fits or does not request cards.
        node: the node to which the pod is bound.
        shares: the shares of the pod on this node.
        scheduler: kube-scheduler's message; None if the pod is not pending.
        simulation: the extender's simulation for the pod; None if the pod is not pending.
        without: the pods that are considered deleted in the simulation.
    """

    namespace: str
    pod: str
    uid: str
    state: str
    answer: str
    smallest_change: str = ""
    node: str = ""
    shares: list[HeldShare] = []
    scheduler: SchedulerWords | None = None
    simulation: Simulation | None = None
    without: list[str] = []
    version: int = EXPLANATION_VERSION


async def explain_pod(
    found: PodInQuestion, extender: Extender, *, nodes: Sequence[str] = (), without: Sequence[str] = ()
) -> Explanation:
    """Return an explanation of why a pod is pending, based on data from the extender.

    Args:
        found: the pod, and kube-scheduler's message for the pod.
        extender: the client for the extender in the cluster.
        nodes: the nodes to consider; empty for all nodes that share cards.
        without: the pods that are considered deleted in the simulation.

    Raises:
        ServiceError: the cluster does not have an extender, a permission is missing, or the extender does not respond.
    """
    pod = found.pod
    metadata, subject = pod.metadata, f"Pod {pod.ref}"
    if pod.terminal:
        answer = f"{subject} is not pending: it has ended ({pod.status.phase}) and holds no card."
        return Explanation(metadata.namespace, metadata.name, metadata.uid, "ended", answer, node=pod.spec.node_name)
    if pod.spec.node_name:
        return await _explain_bound(pod, extender)
    simulation = await extender.simulate(SimulationQuestion(pod, list(nodes) or None, list(without)))
    return Explanation(
        *(metadata.namespace, metadata.name, metadata.uid, "pending"),
        describe_answer(subject, simulation, named=bool(nodes), without=without),
        describe_smallest(simulation),
        scheduler=found.words,
        simulation=simulation,
        without=list(without),
    )


async def _explain_bound(pod: Pod, extender: Extender) -> Explanation:
    node, metadata = pod.spec.node_name, pod.metadata
    shares: list[HeldShare] = []
    if not _requests_cards(pod):
        answer = f"Pod {pod.ref} is not pending: it is bound to node {node} and requests no card."
        return Explanation(metadata.namespace, metadata.name, metadata.uid, "bound", answer, node=node)
    sentence = "the extender has no record of any card that it holds"
    try:
        inspection = await extender.inspect(node)
    except ServiceError as exc:
        sentence = f"the cards that it holds are unknown ({exc})"
    else:
        shares = [share for view in inspection.nodes for share in _list_shares(view, metadata.uid)]
        unassigned = [each for view in inspection.nodes for each in view.unassigned if each.uid == metadata.uid]
        if shares:
            sentence = f"it holds {'; '.join(map(_describe_share, shares))}"
        elif unassigned:
            sentence = f"it holds cards, but their IDs are unknown: {unassigned[0].problem}"
    answer = f"Pod {pod.ref} is not pending: it is bound to node {node}, and {sentence}."
    return Explanation(metadata.namespace, metadata.name, metadata.uid, "bound", answer, node=node, shares=shares)


def _requests_cards(pod: Pod) -> bool:
    found = PodReader(load_dialects(list_dialect_names())).read(pod)
    return found is not None and found.requests_cards


def _list_shares(view: InspectedNode, uid: str) -> list[HeldShare]:
    return [
        HeldShare(share.container, card.id, card.model, share.memory_bytes, share.whole, share.stage)
        for card in view.cards
        for share in card.shares
        if share.uid == uid
    ]


def _describe_share(share: HeldShare) -> str:
    amount = "the whole of" if share.whole else f"{format_bytes(share.memory_bytes)} of"
    return f"{amount} card {share.card} in container {share.container}"
