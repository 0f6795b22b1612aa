"""Amounts that are allocated to containers without an assignment, so that a ledger would not count them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelkit.model.assignment import MOVING, Assignment, Share, is_equal
from accelkit.model.request import Kind
from accelkit.placement.charges import count_charges


@dataclass(frozen=True, slots=True)
class Account:
    """The amounts of a pod that the ledger counts, and the amounts that are allocated to the pod.

    Attributes:
        order: the containers of the pod and their kinds.
        written: the assignment of the pod; if it is None, the ledger counts the pod on every card.
        observed: the assignment that matches the devices that the kubelet reports; None if the kubelet does not report
            them yet.
    """

    order: Sequence[tuple[str, Kind]]
    written: Assignment | None
    observed: Assignment | None


def count_uncounted(accounts: Iterable[Account]) -> tuple[Share, ...]:
    """Return the amounts by which the allocated amounts exceed the sum of all assignments, sorted by card.

    For a pod that waits for its devices, the amounts in its assignment are counted. If the assigned card is allocated
    to another pod, the waiting pod will get the other pod's card.
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
    # Assignments that compare as equal may still contain different amounts for a whole card or for compute, because the
    # kubelet does not report these amounts.
    same = account.written is not None and is_equal(account.written, account.observed)
    held = account.written if same and account.written else account.observed
    return {name: shares for name, shares in held.containers.items() if name != MOVING}
