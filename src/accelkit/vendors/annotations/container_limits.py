"""Annotations with the memory limits of containers, which a vendor's container runtime plug-in enforces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from accelkit.model.assignment import MOVING, Assignment
from accelkit.model.card import Card
from accelkit.vendors.profiles import load_usable_profiles

_MIB: Final = 2**20
_LONGEST_NAME: Final = 63


def write_container_limits(assignment: Assignment, cards: Mapping[str, Card]) -> dict[str, str]:
    """Return the annotations that contain the memory that each container may use on each of its cards.

    One amount applies to all cards of a container, so no annotation is written for a container with different shares.
    No annotation is written for containers with whole cards, or with a name that is too long for a key.

    Args:
        assignment: the assignment of a pod.
        cards: the node's cards by ID.
    """
    found: dict[str, str] = {}
    for container, shares in assignment.containers.items():
        amounts = {share.memory_bytes // _MIB for share in shares}
        vendors = {cards[share.card].vendor if share.card in cards else "" for share in shares}
        if container == MOVING or len(amounts) != 1 or len(vendors) != 1 or any(share.whole for share in shares):
            continue
        profile = load_usable_profiles().profiles.get(vendors.pop())
        keys = [pattern.format(container=container) for pattern in (profile.container_limits if profile else ())]
        # The API server rejects a Binding if a key is too long.
        if all(len(key.rpartition("/")[2]) <= _LONGEST_NAME for key in keys):
            found |= dict.fromkeys(keys, f"{max({1, *amounts})}Mi")
    return found
