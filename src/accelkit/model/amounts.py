"""Amounts of resources that are numbers to us and nothing else: each is the name of an extended resource and how much.

They are sorted by name, each once, so that two that say the same are equal. A resource that is not named is not known:
a card without it has none to give, which is not the same as one that has none left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

Amounts: TypeAlias = tuple[tuple[str, int], ...]


def build_amounts(amounts: Mapping[str, int]) -> Amounts:
    """Return amounts by name as a value."""
    return tuple(sorted(amounts.items()))


def add_amounts(one: Amounts, other: Amounts, sign: int = 1) -> Amounts:
    """Return the sums by name (or differences, with -1); what comes to nothing is left out."""
    if not other:
        return one
    total = Counter(dict(one))
    for name, amount in other:
        total[name] += sign * amount
    return build_amounts({name: amount for name, amount in total.items() if amount})


def take_off(capacity: Amounts, used: Amounts) -> Amounts:
    """Return what is left of each resource of a card: negative where others hold more than there is."""
    if not used:
        return capacity
    held = dict(used)
    return tuple((name, amount - held.get(name, 0)) for name, amount in capacity)


def take_up_to(pool: Amounts, wanted: Amounts) -> Amounts:
    """Return how much of what is wanted a pool has."""
    there = dict(pool)
    return build_amounts({name: least for name, amount in wanted if (least := min(amount, there.get(name, 0))) > 0})


def find_lack(free: Amounts, wanted: Amounts, unless_told: str = "") -> str:
    """Return the first resource of which less is free than is wanted, empty where none is.

    Args:
        free: what a card has left.
        wanted: what is asked for. Of a resource of which 0 is wanted a card needs to have some.
        unless_told: a resource that is unlimited on cards of which nobody told how much they have of it.
    """
    left = dict(free)
    for name, amount in wanted:
        if (name not in left and name != unless_told) or left.get(name, amount) < amount:
            return name
    return ""
