"""Finds what containers hold of cards and no assignment of the node says: what a ledger would not count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelkit.model.assignment import MOVING, Assignment, Share, is_equal
from accelkit.model.request import Kind
from accelkit.placement.charges import count_charges


@dataclass(frozen=True, slots=True)
class Account:
    """A pod as the ledger counts it, and as it is.

    Attributes:
        order: its containers and their kinds.
        written: its assignment; None where it has none, which the ledger counts on every card.
        observed: what its kubelet shows; None where it does not show its devices yet.
    """

    order: Sequence[tuple[str, Kind]]
    written: Assignment | None
    observed: Assignment | None


def count_uncounted(accounts: Iterable[Account]) -> tuple[Share, ...]:
    """Return what is held of each card over what the assignments say together, sorted by card.

    A pod that waits for its devices counts as it is written: where another one has its card it will take that one's.
    """
    rest: dict[str, list[int]] = {}
    for account in accounts:
        if account.written is None:
            continue
        for containers, sign in ((_list_held(account), 1), (account.written.containers, -1)):
            for card, charge in count_charges(account.order, containers).items():
                amounts = rest.setdefault(card, [0, 0, 0])
                for place, amount in enumerate((charge.memory_bytes, charge.compute, charge.whole)):
                    amounts[place] += sign * amount
    return tuple(
        Share(card, max(0, memory_bytes), max(0, compute), whole=whole > 0)
        for card, (memory_bytes, compute, whole) in sorted(rest.items())
        if max(memory_bytes, compute, whole) > 0
    )


def _list_held(account: Account) -> Mapping[str, tuple[Share, ...]]:
    if account.observed is None:
        return {}
    # What is the same may be written with other amounts of a whole card or of compute, which the kubelet cannot show.
    same = account.written is not None and is_equal(account.written, account.observed)
    held = account.written if same and account.written else account.observed
    return {name: shares for name, shares in held.containers.items() if name != MOVING}
