"""Decision about a node with another owner: leave the node unchanged, adopt the node, or report a conflict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from accelkit.enablement.ownership.evidence import NodeOwner, OwnerState
from accelkit.enablement.ownership.owners import HeldPart
from accelkit.enablement.ownership.reasons import NEXT_ACTIONS, OwnershipReason


class Fate(StrEnum):
    """Possible decisions about a node."""

    FREE = "free"
    LEFT_ALONE = "left-alone"
    ADOPTED = "adopted"
    CONTESTED = "contested"


class OwnerDecision(msgspec.Struct, frozen=True):
    """The decision about a node, with its reason.

    Attributes:
        fate: the decision.
        reason: the reason; empty if the node never had another owner.
        evidence: the evidence, as a sentence without the final punctuation.
        next_action: the next action for an administrator.
        gives: the resources of the node's cards that other owners currently offer.
    """

    fate: Fate
    reason: OwnershipReason | Literal[""] = ""
    evidence: str = ""
    next_action: str = ""
    gives: tuple[str, ...] = ()


def judge_nodes(
    owners: Mapping[str, Sequence[NodeOwner]],
    *,
    shared: Collection[str],
    adopt: bool,
    coexisting: Collection[str] = (),
) -> dict[str, OwnerDecision]:
    """Return the decision about each node.

    Args:
        owners: the owners by node, as `find_owners` returns them.
        shared: names of nodes whose cards accelkit already shares, or must share according to the node label.
        adopt: whether to adopt nodes whose owners currently do not offer cards.
        coexisting: names of nodes that are shared even if other owners offer their cards.
    """
    return {
        name: _judge(found, shared=name in shared, adopt=adopt, coexisting=name in coexisting)
        for name, found in sorted(owners.items())
    }


def _judge(owners: Sequence[NodeOwner], *, shared: bool, adopt: bool, coexisting: bool) -> OwnerDecision:
    present = [each for each in owners if each.state is OwnerState.OWNER]
    if not present:
        return _build(Fate.FREE, "LeftOverOfOwner", owners) if owners else OwnerDecision(Fate.FREE)
    gives = any(each.gives for each in present)
    # An owner of the driver does not offer cards, but an owner of the cards will offer cards. A tenant's DaemonSet in
    # combination with leftover marks is not sufficient evidence to stop a run.
    claims = any(each.holds is HeldPart.CARDS and each.sure for each in present)
    if not coexisting and not shared and not adopt:
        return _build(Fate.LEFT_ALONE, "NodeOwned", present)
    if not coexisting and (gives or (claims and not adopt)):
        return _build(Fate.CONTESTED, "TwoOwners", present)
    return _build(Fate.ADOPTED, "NodeAdopted", present)


def _build(fate: Fate, reason: OwnershipReason, owners: Sequence[NodeOwner]) -> OwnerDecision:
    evidence = "; ".join(_describe(each) for each in owners)
    releases = sorted({each.release for each in owners if each.holds is HeldPart.CARDS})
    action = NEXT_ACTIONS[reason]
    if fate in {Fate.LEFT_ALONE, Fate.CONTESTED} and releases:
        action = f"{action}; to release the node from its owner, {' or '.join(releases)}"
    return OwnerDecision(
        fate, reason, evidence, action, tuple(sorted({offer for each in owners for offer in each.gives}))
    )


def _describe(owner: NodeOwner) -> str:
    subject = f"the {owner.holds} for vendor {owner.vendor}" if owner.vendor else "its cards, or their driver"
    verb = "has left traces of" if owner.state is OwnerState.LEFT_OVER else "holds"
    return f"{owner.title} {verb} {subject} ({', '.join(owner.evidence)})"
