"""Amounts of resources that accelkit only counts: names of extended resources, each with an integer.

The amounts are sorted by name, and each name occurs once, so that equal amounts compare as equal. A card provides only
the resources that its amounts list. The free amount of a fully used resource is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

Amounts: TypeAlias = tuple[tuple[str, int], ...]


def build_amounts(amounts: Mapping[str, int]) -> Amounts:
    """Return a mapping from names to amounts as `Amounts`."""
    return tuple(sorted(amounts.items()))


def add_amounts(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    """Return the sums by name, or the differences if the sign is -1. Names with a sum of 0 are omitted."""
    if not other:
        return one
    total = Counter(dict(one))
    for name, amount in other:
        total[name] += sign * amount
    return build_amounts({name: amount for name, amount in total.items() if amount})


def take_off(capacity: Amounts, used: Amounts) -> Amounts:
    """Return the remaining amount of each resource of a card; negative if containers use more than the capacity."""
    if not used:
        return capacity
    held = dict(used)
    return tuple((name, amount - held.get(name, 0)) for name, amount in capacity)


def take_up_to(pool: Amounts, requested: Amounts) -> Amounts:
    """Return the portion of the requested amounts that a pool can provide."""
    available = dict(pool)
    return build_amounts(
        {name: least for name, amount in requested if (least := min(amount, available.get(name, 0))) > 0}
    )


def find_lack(free: Amounts, requested: Amounts, unlimited: str = "") -> str:
    """Return the first resource whose free amount is less than the requested amount; empty if there is none.

    Args:
        free: the free amounts of a card.
        requested: the requested amounts. Even a request for an amount of 0 requires a card that has the resource.
        unlimited: a resource that is unlimited on cards that have no amount for it.
    """
    left = dict(free)
    for name, amount in requested:
        if (name not in left and name != unlimited) or left.get(name, amount) < amount:
            return name
    return ""
