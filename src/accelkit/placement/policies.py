"""Policies that rank the fitting cards within a node, and rank nodes against each other.

The extender, the device plugin's preferred allocation and the benchmarks call the same functions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from accelkit.model.request import PodRequest
from accelkit.placement.plugged_policies import PluggedPolicy

MAX_SCORE: Final = 10  # the extender API's MaxExtenderPriority


class Policy(StrEnum):
    """Built-in placement policies.

    BINPACK fills used cards and nodes first, so that whole cards stay free. SPREAD distributes pods over cards.

    TOPOLOGY takes the best connected cards and leaves the others well connected; `placement.topology` ranks sets and
    nodes for it. Without known connections, it works like BINPACK.

    FRAGMENTATION takes the node that loses the least of what the expected pods could use, as measured by
    `placement.fragmentation`. Within a node, it works like BINPACK.
    """

    BINPACK = "binpack"
    SPREAD = "spread"
    TOPOLOGY = "topology"
    FRAGMENTATION = "fragmentation"


# A policy from accelkit, or from another distribution.
AnyPolicy: TypeAlias = Policy | PluggedPolicy


def choose_policy(named: str, default: AnyPolicy) -> AnyPolicy:
    """Return the policy that a container names, which is one of accelkit's, or otherwise the cluster's policy."""
    return Policy(named) if named else default


def find_policy(request: PodRequest, default: AnyPolicy) -> AnyPolicy:
    """Return the policy that ranks nodes for a pod: the first that a container names, otherwise the cluster's."""
    return choose_policy(next((each.policy for each in request.containers if each.policy), ""), default)


def rank_card(policy: Policy, free_bytes: int, index: int) -> tuple[int, int]:
    """Return the sort key of a card that fits: the smallest is taken first; the card numbering breaks ties."""
    return (-free_bytes if policy is Policy.SPREAD else free_bytes, index)


def score_node(policy: Policy, used_fraction: float) -> int:
    """Return the score of a node, from 0 to MAX_SCORE, by the fraction of its memory that is used, from 0 to 1.

    The lowest step is reserved for unused nodes, so that one small share on a large node changes the score.
    """
    packed = 0 if used_fraction <= 0 else 1 + round((MAX_SCORE - 1) * min(1.0, used_fraction))
    return MAX_SCORE - packed if policy is Policy.SPREAD else packed
