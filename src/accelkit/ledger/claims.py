"""Claims: cards that are reserved for a pod from the eviction of its victims until the pod is bound.

A claim is charged immediately, in addition to the shares of the victims, so that no other pod gets the freed cards.
Claims are not stored persistently. After a restart, claims are created only for pods with a condition that requests a
claim (`accelkit.extender.preemption.holds`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from accelkit.ledger.holding import Holding, ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment
from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest
from accelkit.placement.misfit import Misfit, MisfitError, MisfitReason
from accelkit.placement.policies import AnyPolicy


def claim(
    ledger: Ledger,
    pod: PodRef,
    node: str,
    request: PodRequest,
    policy: AnyPolicy,
    *,
    gone: Collection[str],
    labels: tuple[str, ...] = (),
) -> Assignment:
    """Claim the cards that a pod would get on a node if some other pods did not exist.

    Args:
        ledger: the ledger that stores the claim.
        pod: the pod that gets the cards.
        node: the node.
        request: the request of the pod.
        policy: the policy that ranks cards if the pod does not name one.
        gone: the UIDs of the pods that are evicted.
        labels: the labels of the pod, as `key=value`.

    Raises:
        MisfitError: the pod would not fit, or its namespace would exceed its quota while the other pods still exist.
    """
    with ledger.lock():
        beyond = ledger.judge_quota(pod.namespace, request, without=(pod.uid,))
        placed = beyond or _place(ledger, node, request, policy, dict.fromkeys([*gone, pod.uid], node))
        if isinstance(placed, Misfit):
            raise MisfitError(placed)
        ledger.confirm(pod, node, placed, request.order, ShareStage.CLAIMED, labels=labels)
    return placed


def is_blocked(ledger: Ledger, held: Holding, request: PodRequest, policy: AnyPolicy) -> bool:
    """Return whether a holding is a claim that cannot be used yet.

    Its cards may still be in use, or the quota may be exceeded.
    """
    if held.stage is not ShareStage.CLAIMED:
        return False
    beyond = ledger.judge_quota(held.pod.namespace, request, without=(held.pod.uid,))
    return isinstance(beyond or _place(ledger, held.node, request, policy, {held.pod.uid: held.node}), Misfit)


def reserve(
    ledger: Ledger, pod: PodRef, node: str, request: PodRequest, policy: AnyPolicy, *, labels: tuple[str, ...] = ()
) -> Assignment:
    """Replace the pod's claim with a reservation of cards, in the same way as `Ledger.reserve`.

    Raises:
        MisfitError: the pod does not fit the node, or already has cards on another node. In this case, the claim does
            not change.
    """
    with ledger.lock():
        held = ledger.find_holding(pod.uid)
        if held is None or held.stage is not ShareStage.CLAIMED:
            return ledger.reserve(pod, node, request, policy, labels)
        ledger.release(pod.uid)
        try:
            return ledger.reserve(pod, node, request, policy, labels)
        except MisfitError:
            ledger.restore(held)
            raise


def _place(
    ledger: Ledger, node: str, request: PodRequest, policy: AnyPolicy, gone: Mapping[str, str]
) -> Assignment | Misfit:
    branch = ledger.branch(gone)
    entry = branch.find_node(node)
    if entry is None:
        return Misfit(MisfitReason.UNKNOWN_NODE, detail=node, resolvable=False)
    return branch.choose(entry, ledger.resolve(request), policy)
