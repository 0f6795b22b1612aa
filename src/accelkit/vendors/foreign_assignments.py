"""Assignments of pods that another system has bound, read from that system's annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from accelkit.errors import AssignmentError, RequestError
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest
from accelkit.texts import count_cards
from accelkit.vendors.checked_assignments import check_assignment
from accelkit.vendors.pod_reading import CardPod


def read_foreign_assignment(pod: CardPod, cards: Sequence[Card], unit_bytes: int) -> Assignment | None:
    """Return the assignment that another system wrote; None if the pod has no such assignment.

    Args:
        pod: a bound pod.
        cards: the cards of its node.
        unit_bytes: the node's memory unit.

    Raises:
        AssignmentError: the assignment does not match the pod or the cards.
    """
    codec = pod.dialect.annotations
    if codec is None:
        return None
    try:
        request = pod.read_request_by_limits(unit_bytes)
    except RequestError as exc:
        raise AssignmentError(str(exc)) from exc
    numbers = codec.read_card_numbers(pod.annotations, pod.app_containers)
    if numbers is None or request is None:
        return None
    # accelkit uses the driver's number. Systems that assign their own numbers count from 0, as the driver does.
    by_number = {place if card.number is None else card.number: card for place, card in enumerate(cards)}
    # These systems do not record init containers, to which the kubelet allocated devices of the same card.
    fallback = next(iter(numbers.values()), ())
    named = {
        each.container: tuple(_find_cards(each, numbers.get(each.container, fallback), by_number))
        for each in request.containers
    }
    capacities = {card.id: card.capacity_bytes for card in cards}
    return check_assignment(pod, Assignment(named), capacities, unit_bytes, compute={})


def _find_cards(request: ContainerRequest, numbers: Sequence[int], cards: Mapping[int, Card]) -> Iterator[Share]:
    if len(numbers) != request.cards:
        given = count_cards(len(numbers))
        raise AssignmentError(f"container {request.container} was assigned {given} but requests {request.cards}")
    for number in numbers:
        if (card := cards.get(number)) is None:
            raise AssignmentError(
                f"container {request.container} was assigned card {number}, which does not exist on its node"
            )
        yield Share(card.id, request.memory_bytes, request.compute, whole=request.whole, amounts=request.amounts)
