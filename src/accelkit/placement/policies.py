"""Policies that rank the fitting cards of a node, and score nodes.

The extender, the preferred allocation of the device plugin and the benchmarks use the same functions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from accelkit.model.request import PodRequest
from accelkit.placement.plugged_policies import PluggedPolicy

MAX_SCORE: Final = 10  # the extender API's MaxExtenderPriority


class Policy(StrEnum):
    """Built-in placement policies.

    BINPACK fills used cards and nodes first, so that whole cards remain free. SPREAD distributes pods over cards.

    TOPOLOGY takes the best connected cards such that the remaining cards are also well connected;
    `placement.topology` ranks sets and nodes. Without known connections, TOPOLOGY works like BINPACK.

    FRAGMENTATION takes the node that loses the least of the free amounts that the expected pods could use, as measured
    by `placement.fragmentation`. Within a node, it works like BINPACK.
    """

    BINPACK = "binpack"
    SPREAD = "spread"
    TOPOLOGY = "topology"
    FRAGMENTATION = "fragmentation"


# A policy of accelkit or of another distribution.
AnyPolicy: TypeAlias = Policy | PluggedPolicy


def choose_policy(named: str, default: AnyPolicy) -> AnyPolicy:
    """Return the built-in policy that a container names, otherwise the default policy."""
    return Policy(named) if named else default


def find_policy(request: PodRequest, default: AnyPolicy) -> AnyPolicy:
    """Return the policy that scores nodes for a pod: the first policy that a container names, otherwise the default."""
    return choose_policy(next((each.policy for each in request.containers if each.policy), ""), default)


def rank_card(policy: Policy, free_bytes: int, index: int) -> tuple[int, int]:
    """Return the sort key of a card that fits: the card with the smallest key is taken first."""
    return (-free_bytes if policy is Policy.SPREAD else free_bytes, index)


def score_node(policy: Policy, used_fraction: float) -> int:
    """Return the score of a node, from 0 to MAX_SCORE, based on the used fraction of its memory, from 0 to 1.

    The lowest score step is reserved for unused nodes, so that one small share on a large node changes the score.
    """
    packed = 0 if used_fraction <= 0 else 1 + round((MAX_SCORE - 1) * min(1.0, used_fraction))
    return MAX_SCORE - packed if policy is Policy.SPREAD else packed
