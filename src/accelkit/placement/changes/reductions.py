"""Changes that reduce a request: less memory, less compute, or fewer cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from accelkit.model.request import ContainerRequest, PodRequest
from accelkit.placement.card_state import CardState
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.probe import Probe, Search
from accelkit.placement.changes.situation import Situation, Terms, list_suiting


def find_less_memory(
    probe: Probe, node: Situation, request: PodRequest, terms: Terms, *, large: bool
) -> Search[Change | None]:
    """Return the smallest reduction of one container's memory that would make the pod fit; None if none is found.

    If `large` is true, only amounts below half of the request are tried. Otherwise, only the larger amounts are
    tried.
    """

    def list_amounts(container: ContainerRequest) -> range:
        if container.whole or not container.memory_bytes:
            return range(0)
        requested = container.memory_bytes
        step = next((each for each in terms.memory_steps if requested % each == 0), 1)
        free = _find_free([each.free_bytes for each in list_suiting(node.states, container)], container)
        half = -(-requested // (2 * step)) * step
        return _cut(range(step, min(requested - step, free // step * step) + 1, step), half, large=large)

    found = yield from _find_least(probe, node.states, request, "memory_bytes", list_amounts)
    return None if found is None else msgspec.structs.replace(found, kind=ChangeKind.LESS_MEMORY)


def find_less_compute(
    probe: Probe, node: Situation, request: PodRequest, _: Terms, *, large: bool
) -> Search[Change | None]:
    """Return the smallest reduction of one container's compute that would make the pod fit; None if none is found."""

    def list_amounts(container: ContainerRequest) -> range:
        requested = container.compute
        free = _find_free([each.free_compute for each in list_suiting(node.states, container)], container)
        # With an amount of 0, a container that requests only compute would not request a card.
        least = 0 if container.memory_bytes else 1
        return _cut(range(least, min(requested - 1, free) + 1), -(-requested // 2), large=large)

    found = yield from _find_least(probe, node.states, request, "compute", list_amounts)
    return None if found is None else msgspec.structs.replace(found, kind=ChangeKind.LESS_COMPUTE)


def find_fewer_cards(
    probe: Probe, node: Situation, request: PodRequest, _: Terms, *, large: bool
) -> Search[Change | None]:
    """Return the smallest reduction of one container's cards that would make the pod fit; None if none is found."""

    def list_amounts(container: ContainerRequest) -> range:
        most = min(container.cards - 1, len(list_suiting(node.states, container)))
        return _cut(range(1, most + 1), -(-container.cards // 2), large=large)

    found = yield from _find_least(probe, node.states, request, "cards", list_amounts)
    return None if found is None else msgspec.structs.replace(found, kind=ChangeKind.FEWER_CARDS)


def replace_containers(request: PodRequest, places: Sequence[int], **fields: object) -> PodRequest:
    """Return a copy of the request in which these fields of the containers at these positions are replaced."""
    return PodRequest(
        tuple(
            msgspec.structs.replace(container, **fields) if place in places else container
            for place, container in enumerate(request.containers)
        )
    )


def list_distinct(request: PodRequest) -> Iterator[int]:
    """Yield the positions of containers with distinct requests. If requests are equal, only the first is included."""
    distinct = set[ContainerRequest]()
    for place, container in enumerate(request.containers):
        nameless = msgspec.structs.replace(container, container="")
        if nameless not in distinct:
            distinct.add(nameless)
            yield place


def _find_least(
    probe: Probe,
    states: Sequence[CardState],
    request: PodRequest,
    name: str,
    list_amounts: Callable[[ContainerRequest], range],
) -> Search[Change | None]:
    """Return the smallest reduction of a field in any one container."""
    best: Change | None = None
    for place in list_distinct(request):
        container = request.containers[place]
        before = getattr(container, name)

        def build(amount: int, place: int = place) -> PodRequest:
            return replace_containers(request, (place,), **{name: amount})

        found = yield from probe.find_most(states, list_amounts(container), build)
        if found is None:
            continue
        after, taken = found
        times = 1 if name == "cards" else container.cards
        change = Change(
            ChangeKind.LESS_MEMORY,
            container.container,
            before=before,
            after=after,
            on_cards=times,
            taken=taken,
            size=((before - after) * times, place),
        )
        if best is None or change.size < best.size:
            best = change
    return best


def _find_free(amounts: list[int], container: ContainerRequest) -> int:
    """Return the largest amount that is free on the requested number of cards; -1 if there are too few cards."""
    return sorted(amounts, reverse=True)[container.cards - 1] if len(amounts) >= container.cards else -1


def _cut(amounts: range, half: int, *, large: bool) -> range:
    """Return the amounts below half of the request if `large` is true; otherwise, return the larger amounts."""
    if large:
        return range(amounts.start, min(amounts.stop, half), amounts.step)
    start = amounts.start
    return range(start + max(0, -(-(half - start) // amounts.step)) * amounts.step, amounts.stop, amounts.step)
