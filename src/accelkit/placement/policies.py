"""Policies that rank the fitting cards of a node and score nodes.

The extender, the device plugin's preferred allocation, and the benchmarks use the same functions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from accelkit.model.request import PodRequest
from accelkit.placement.plugged_policies import PluggedPolicy

MAX_SCORE: Final = 10  # The value of MaxExtenderPriority in the extender API.


class Policy(StrEnum):
    """Built-in placement policies.

    BINPACK fills used cards and nodes first, so that whole cards remain free. SPREAD distributes pods across cards.

    TOPOLOGY chooses the best connected cards such that the remaining cards are also well connected.
    `placement.topology` ranks sets and nodes. If the connections are unknown, TOPOLOGY behaves like BINPACK.

    FRAGMENTATION chooses the node with the smallest loss of free amounts that the expected pods could use, as measured
    by `placement.fragmentation`. Within a node, it behaves like BINPACK.
    """

    BINPACK = "binpack"
    SPREAD = "spread"
    TOPOLOGY = "topology"
    FRAGMENTATION = "fragmentation"


# A policy from accelkit or from another distribution.
AnyPolicy: TypeAlias = Policy | PluggedPolicy


def choose_policy(named: str, default: AnyPolicy) -> AnyPolicy:
    """Return the built-in policy that a container specifies; otherwise, return the default policy."""
    return Policy(named) if named else default


def find_policy(request: PodRequest, default: AnyPolicy) -> AnyPolicy:
    """Return the policy that scores nodes for a pod: the first policy that a container specifies, or the default."""
    return choose_policy(next((each.policy for each in request.containers if each.policy), ""), default)


def rank_card(policy: Policy, free_bytes: int, index: int) -> tuple[int, int]:
    """Return the sort key of a card that fits. The card with the smallest key is used first."""
    return (-free_bytes if policy is Policy.SPREAD else free_bytes, index)


def score_node(policy: Policy, used_fraction: float) -> int:
    """Return the score of a node, from 0 to MAX_SCORE, based on the used fraction of its memory, from 0 to 1.

    The lowest score is reserved for unused nodes, so that even one small share on a large node changes the score.
    """
    packed = 0 if used_fraction <= 0 else 1 + round((MAX_SCORE - 1) * min(1.0, used_fraction))
    return MAX_SCORE - packed if policy is Policy.SPREAD else packed
