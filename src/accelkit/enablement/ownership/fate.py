"""Judges what becomes of a node that somebody else owns: it is left alone, taken over, or two would give its cards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum

import msgspec

from accelkit.enablement.ownership.evidence import NodeOwner, OwnerState
from accelkit.enablement.ownership.owners import Hold
from accelkit.enablement.ownership.reasons import LEFT_OVER, NODE_ADOPTED, NODE_OWNED, REASONS, TWO_OWNERS


class Fate(StrEnum):
    """What becomes of a node."""

    FREE = "free"
    LEFT_ALONE = "left-alone"
    ADOPTED = "adopted"
    CONTESTED = "contested"


class Judgement(msgspec.Struct, frozen=True):
    """What becomes of a node, and why.

    Attributes:
        fate: of the node.
        reason: one of `REASONS`; empty where nobody else was ever there.
        evidence: a sentence without its end.
        next_action: what a person does now.
        gives: what others offer of its cards now.
    """

    fate: Fate
    reason: str = ""
    evidence: str = ""
    next_action: str = ""
    gives: tuple[str, ...] = ()


def judge_nodes(
    owners: Mapping[str, Sequence[NodeOwner]],
    *,
    shared: Collection[str],
    adopt: bool,
    coexisting: Collection[str] = (),
) -> dict[str, Judgement]:
    """Return what becomes of each node.

    Args:
        owners: by node, as `find_owners` returns them.
        shared: names of nodes whose cards accelkit shares already, or was told to by their label.
        adopt: whether nodes are taken over whose owners give no cards now.
        coexisting: names of nodes that are shared whatever others give there.
    """
    return {
        name: _judge(found, shared=name in shared, adopt=adopt, coexisting=name in coexisting)
        for name, found in sorted(owners.items())
    }


def _judge(owners: Sequence[NodeOwner], *, shared: bool, adopt: bool, coexisting: bool) -> Judgement:
    there = [each for each in owners if each.state is OwnerState.OWNER]
    if not there:
        return _build(Fate.FREE, LEFT_OVER, owners) if owners else Judgement(Fate.FREE)
    gives = any(each.gives for each in there)
    # Who loads the driver gives no card away; who claims the cards will. A tenant's DaemonSet, with marks that are left
    # over, makes nobody so sure that a run would end for it.
    claims = any(each.holds is Hold.CARDS and each.sure for each in there)
    if not coexisting and not shared and not adopt:
        return _build(Fate.LEFT_ALONE, NODE_OWNED, there)
    if not coexisting and (gives or (claims and not adopt)):
        return _build(Fate.CONTESTED, TWO_OWNERS, there)
    return _build(Fate.ADOPTED, NODE_ADOPTED, there)


def _build(fate: Fate, reason: str, owners: Sequence[NodeOwner]) -> Judgement:
    evidence = "; ".join(_describe(each) for each in owners)
    releases = sorted({each.release for each in owners if each.holds is Hold.CARDS})
    action = REASONS[reason]
    if fate in {Fate.LEFT_ALONE, Fate.CONTESTED} and releases:
        action = f"{action}; to take the node from its owner, {' or '.join(releases)}"
    return Judgement(fate, reason, evidence, action, tuple(sorted({offer for each in owners for offer in each.gives})))


def _describe(owner: NodeOwner) -> str:
    whose = f"the {owner.holds} of its {owner.vendor} cards" if owner.vendor else "its cards, or their driver"
    verb = "has left traces of" if owner.state is OwnerState.LEFT_OVER else "holds"
    return f"{owner.title} {verb} {whose} ({', '.join(owner.evidence)})"
