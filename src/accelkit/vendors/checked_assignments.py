"""Validation of an assignment against the limits of its pod, because users who may edit a pod can write the annotation.

Only the cards of containers that request cards are read from the assignment. The amounts are computed from the limits,
which cannot change after the pod is created, in the unit in which the kubelet allocated devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelkit.errors import AssignmentError, RequestError
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.card import MAX_CARD_ID
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE, format_bytes
from accelkit.texts import count_cards, shorten
from accelkit.vendors.counted_requests import CardContainer, read_counted_request
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.pod_reading import CardPod
from accelkit.vendors.requests import read_device_limits

_MAX_NAME = 63


def check_assignment(
    pod: CardPod,
    written: Assignment,
    capacities: Mapping[str, int] | None,
    unit_bytes: int,
    compute: Mapping[str, int] | None = None,
) -> Assignment:
    """Return the valid part of the assignment in a pod's annotation; empty if the pod does not request cards.

    Args:
        pod: the pod.
        written: the assignment from the annotation.
        capacities: the shareable memory of each card of the node, by card ID. If it is None, the cards are unknown and
            are accepted as written.
        unit_bytes: the memory unit of this pod.
        compute: the compute on each card, by container, if it was read before; otherwise, None. It is used if the
            limits do not specify the compute.

    Raises:
        AssignmentError: the limits do not allow these cards for the pod.
    """
    containers: dict[str, tuple[Share, ...]] = {}
    try:
        for container in pod.containers:
            shares = written.containers.get(container.name, ())
            shared, whole = [each for each in shares if not each.whole], [each for each in shares if each.whole]
            check = _Check(container, pod.dialects, shared, whole, capacities, unit_bytes, compute)
            if held := tuple(check.run()):
                containers[container.name] = held
    except RequestError as exc:
        raise AssignmentError(shorten(exc.message)) from exc
    moving = written.containers.get(MOVING, ())
    if moving and _is_possible(moving, [share for shares in containers.values() for share in shares], capacities):
        containers[MOVING] = moving
    return Assignment(containers)


def describe_difference(written: Assignment, valid: Assignment) -> str:
    """Return a sentence that describes the invalid part of an assignment; empty if the entire assignment is valid."""
    for name, shares in written.containers.items():
        if shares and name != MOVING and name not in valid.containers:
            return f"it assigns cards to container {shorten(name, _MAX_NAME)}, which requests none"
    for name, shares in valid.containers.items():
        if name != MOVING and _amounts(written.containers.get(name, ())) != _amounts(shares):
            stated, held = _describe(written.containers.get(name, ())), _describe(shares)
            return f"it assigns {stated} to container {name}, but the pod's limits allow {held}"
    return ""


def list_compute(assignment: Assignment) -> dict[str, int]:
    """Return the compute on each card, by container name. Containers without compute are omitted."""
    found = {
        name: max((share.compute for share in shares if not share.whole), default=0)
        for name, shares in assignment.containers.items()
        if name != MOVING
    }
    return {name: amount for name, amount in found.items() if amount}


@dataclass(frozen=True, slots=True)
class _Check:
    """The validation of one container."""

    container: CardContainer
    dialects: Sequence[Dialect]
    shared: Sequence[Share]
    whole: Sequence[Share]
    capacities: Mapping[str, int] | None
    unit_bytes: int
    compute: Mapping[str, int] | None

    def run(self) -> Iterator[Share]:
        """Yield the valid shares of the container.

        Raises:
            AssignmentError: the limits do not allow the written cards for the container.
            RequestError: the limits of the container cannot be read.
        """
        limits = read_device_limits(self.container, self.dialects)
        if limits is None:
            counted = read_counted_request(self.container, self.dialects)
            if counted is not None:
                self._check_cards(self.shared, counted.cards)
                for share in self.shared:
                    yield Share(share.card, counted.memory_bytes, counted.compute, amounts=counted.amounts)
            return
        if limits.memory:
            yield from self._check_memory(limits.memory, limits.dialect.resources.memory)
        if limits.cards:
            if not self.whole:
                raise self._missing(limits.dialect.resources.cards)
            self._check_cards(self.whole, limits.cards)
            for share in self.whole:
                capacity = 0 if self.capacities is None else self.capacities[share.card]
                yield Share(share.card, capacity, WHOLE_COMPUTE, whole=True)

    def _check_memory(self, units: int, resource: str) -> Iterator[Share]:
        total = units * self.unit_bytes
        if not self.shared:
            raise self._missing(resource)
        if total > MAX_AMOUNT:
            raise AssignmentError(f"container {self.container.name} requests more memory than any node can have")
        self._check_cards(self.shared, len(self.shared))
        if len(self.shared) > 1:
            amounts = [share.memory_bytes for share in self.shared]
            if sum(amounts) != total or any(amount <= 0 or amount % self.unit_bytes for amount in amounts):
                raise AssignmentError(
                    f"container {self.container.name} was assigned {format_bytes(sum(amounts))} on {len(amounts)} "
                    f"cards, but its limit is {format_bytes(total)}"
                )
        if self.compute is None:
            compute = max(share.compute for share in self.shared)
        else:
            compute = self.compute.get(self.container.name, 0)
        for share in self.shared:
            amount = total if len(self.shared) == 1 else share.memory_bytes
            yield Share(share.card, amount, compute)

    def _check_cards(self, shares: Sequence[Share], count: int) -> None:
        cards = [share.card for share in shares]
        if len(set(cards)) != count or len(cards) != count:
            raise AssignmentError(
                f"container {self.container.name} was assigned {count_cards(len(set(cards)))} but requests {count}"
            )
        for card in cards:
            known = 0 < len(card) <= MAX_CARD_ID if self.capacities is None else card in self.capacities
            if not known:
                raise AssignmentError(
                    f"container {self.container.name} was assigned card {shorten(card, MAX_CARD_ID)}, which does not "
                    "exist on its node"
                )

    def _missing(self, resource: str) -> AssignmentError:
        return AssignmentError(f"its assignment contains no {resource} for container {self.container.name}")


def _is_possible(moving: Sequence[Share], held: Sequence[Share], capacities: Mapping[str, int] | None) -> bool:
    # A pod can only release shares that were assigned to it. These shares are on cards of its node, and do not exceed
    # its request.
    return (
        capacities is not None
        and all(share.card in capacities for share in moving)
        and sum(share.memory_bytes for share in moving) <= sum(s.memory_bytes for s in held)
        and sum(share.compute for share in moving) <= sum(s.compute for s in held)
        and sum(share.whole for share in moving) <= sum(s.whole for s in held)
        and len(moving) <= len(capacities)
    )


def _amounts(shares: Sequence[Share]) -> list[tuple[str, bool, int, int]]:
    # A whole card includes all of its memory, regardless of the amount in the assignment.
    return sorted((s.card, s.whole, 0 if s.whole else s.memory_bytes, 0 if s.whole else s.compute) for s in shares)


def _describe(shares: Sequence[Share]) -> str:
    parts = [f"{format_bytes(sum(s.memory_bytes for s in shares if not s.whole))}"] if shares else ["nothing"]
    if whole := sum(s.whole for s in shares):
        parts = [f"{whole} whole card{'' if whole == 1 else 's'}"]
    if compute := max((s.compute for s in shares if not s.whole), default=0):
        parts.append(f"compute {compute / 10:g} %")
    return " with ".join(parts)
