"""Policies rank what fits: cards within a node, and nodes against each other.

The extender, the device plugin's preferred allocation and the simulator call the same functions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
import numpy.typing as npt

MAX_SCORE: Final = 10  # the extender API's MaxExtenderPriority


class Policy(StrEnum):
    """BINPACK fills used cards and nodes first, so that whole cards stay free; SPREAD keeps neighbours apart."""

    BINPACK = "binpack"
    SPREAD = "spread"


def card_rank(policy: Policy, free_bytes: int, index: int) -> tuple[int, int]:
    """Sort key of a card that fits: the smallest is taken first, ties by the node's own numbering."""
    return (free_bytes if policy is Policy.BINPACK else -free_bytes, index)


def node_scores(policy: Policy, used_fraction: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Score nodes 0 to MAX_SCORE by the fraction of their memory that is used.

    Scores are stretched over the nodes compared: eleven steps over 0 to 1 would not tell one small share from none.
    """
    if used_fraction.size == 0:
        return np.zeros(0, dtype=np.int64)
    low, high = float(used_fraction.min()), float(used_fraction.max())
    if high == low:
        return np.zeros(used_fraction.size, dtype=np.int64)
    position = (used_fraction - low) / (high - low)
    if policy is Policy.SPREAD:
        position = 1.0 - position
    return np.rint(position * MAX_SCORE).astype(np.int64)
