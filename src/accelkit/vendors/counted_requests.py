"""Requests from containers in dialects that do not count units of memory.

Intel's GPU Aware Scheduling counts cards, and distributes the other amounts of a container evenly across its cards. The
GCUShare source from 2025 counts slices of one card. accelkit counts slices as compute, because all cards in the ledger
have equal compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from accelkit.errors import QuantityError, RequestError
from accelkit.model.amounts import Amounts, build_amounts
from accelkit.model.request import MAX_CARDS, ContainerRequest, Kind
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE, parse_quantity
from accelkit.texts import count_cards
from accelkit.vendors.card_numbers import parse_card_name
from accelkit.vendors.dialect import Dialect, PodRules, ResourceNames

# This length is sufficient for several times the number of containers that a node can run.
_MAX_ANNOTATION: Final = 64 * 1024
# Usually, containers request few amounts. The number is limited because each amount is compared on every card.
MAX_AMOUNTS: Final = 16
_PAIR: Final = 2


class CardContainer(msgspec.Struct, frozen=True):
    """A container of a pod, with its unparsed limits. Its kind determines how long its cards are in use."""

    name: str
    kind: Kind
    limits: Mapping[str, str | int | float]


def parse_amount(container: CardContainer, resource: str) -> int:
    """Return a container's limit for a resource; 0 if there is no such limit.

    Raises:
        RequestError: the limit cannot be read.
    """
    value = container.limits.get(resource, 0)
    try:
        return parse_quantity(value if isinstance(value, int) else str(value))
    except QuantityError as exc:
        raise RequestError(f"container {container.name}: {resource}: {exc.message}") from exc


def check_length(key: str, text: str) -> None:
    """Check that an annotation does not exceed the maximum length.

    Raises:
        RequestError: the annotation is too long.
    """
    if len(text) > _MAX_ANNOTATION:
        raise RequestError(f"{key} of {len(text)} characters is over the limit of {_MAX_ANNOTATION}")


def read_counted_request(container: CardContainer, dialects: Sequence[Dialect]) -> ContainerRequest | None:
    """Return the request of a container in the first of these dialects that it uses; None if it does not use any.

    Raises:
        RequestError: the request is invalid.
    """
    for dialect in dialects:
        names = dialect.resources
        if counts := {name: count for name in names.counts if (count := parse_amount(container, name))}:
            return _read_counts(container, names, counts)
        if names.slices and (slices := parse_amount(container, names.slices)):
            return _read_slices(container, names, slices)
    return None


def apply_pod_rules(
    annotations: Mapping[str, str], dialects: Sequence[Dialect], requests: Sequence[ContainerRequest]
) -> tuple[ContainerRequest, ...]:
    """Return the requests, restricted by the rules in the pod's annotations.

    Raises:
        RequestError: an annotation cannot be read, or its rules cannot be satisfied.
    """
    found = list(requests)
    for dialect in dialects:
        if (rules := dialect.pod_rules) is not None:
            found = _restrict(annotations, rules, found)
    return tuple(found)


def _read_counts(container: CardContainer, names: ResourceNames, counts: dict[str, int]) -> ContainerRequest:
    if len(counts) > 1:
        raise RequestError(
            f"container {container.name} requests {' and '.join(counts)}", next_step="request one of them"
        )
    ((name, count),) = counts.items()
    if count > MAX_CARDS:
        raise RequestError(f"container {container.name} requests {count} {name}; at most {MAX_CARDS} are allowed")
    memory, compute = (parse_amount(container, each) if each else 0 for each in (names.bytes, names.compute))
    if memory > MAX_AMOUNT or compute > count * WHOLE_COMPUTE:
        raise RequestError(f"container {container.name} requests more than {count_cards(count)} can provide")
    amounts = _read_amounts(container, names, name, count)
    kind, per_card = container.kind, (memory // count, compute // count)
    return ContainerRequest(container.name, kind, count, *per_card, amounts=amounts, counted_by=name)


def _read_amounts(container: CardContainer, names: ResourceNames, counted_by: str, count: int) -> Amounts:
    """Return the amounts on each card of a container, rounded down. Memory and compute are omitted."""
    found = {counted_by: 1}
    for name in container.limits if names.amounts else ():
        if names.is_amount(name) and name not in names.counts and (amount := parse_amount(container, name)):
            found[name] = amount // count
    if len(found) > MAX_AMOUNTS:
        raise RequestError(
            f"container {container.name} requests {len(found)} amounts of its cards; at most {MAX_AMOUNTS} are allowed"
        )
    return build_amounts(found)


def _read_slices(container: CardContainer, names: ResourceNames, slices: int) -> ContainerRequest:
    if slices > names.per_card:
        raise RequestError(
            f"container {container.name} requests {slices} {names.slices}, but a card has {names.per_card}",
            next_step=f"request at most {names.per_card}",
        )
    return ContainerRequest(container.name, container.kind, 1, 0, slices * WHOLE_COMPUTE // names.per_card)


def _restrict(
    annotations: Mapping[str, str], rules: PodRules, requests: Sequence[ContainerRequest]
) -> list[ContainerRequest]:
    allowed, denied = _parse_card_numbers(annotations, rules.allow), _parse_card_numbers(annotations, rules.deny)
    check_length(rules.same_card, annotations.get(rules.same_card, ""))
    together = [name.strip() for name in annotations.get(rules.same_card, "").split(",") if name.strip()]
    single_numa, linked = (
        annotations.get(rules.single_numa) == "true",
        bool(rules.linked and rules.linked in annotations),
    )
    if not (allowed or denied or together or single_numa or linked):
        return list(requests)
    if linked:
        _check_linked(rules, together, requests)
    if together:
        _check_together(rules, together, requests)
    first = next((request.container for request in requests if request.container in together), "")
    return [
        msgspec.structs.replace(
            request,
            allowed=allowed,
            denied=denied,
            same_card_as=first
            if request.container in together and request.container != first
            else request.same_card_as,
            # These annotations apply only to containers that count cards.
            numa="single" if single_numa and request.counted_by and request.cards > 1 else request.numa,
            link="any" if linked and request.counted_by else request.link,
        )
        for request in requests
    ]


def _check_linked(rules: PodRules, together: Sequence[str], requests: Sequence[ContainerRequest]) -> None:
    if together:
        raise RequestError(f"the pod has both {rules.linked} and {rules.same_card}", next_step="remove one of them")
    for request in requests:
        if request.counted_by and request.cards != _PAIR:
            raise RequestError(
                f"{rules.linked}: container {request.container} requests {count_cards(request.cards)}, "
                "which is not a pair",
                next_step="request two linked cards in each container",
            )


def _check_together(rules: PodRules, together: Sequence[str], requests: Sequence[ContainerRequest]) -> None:
    by_name = {request.container: request for request in requests}
    if len(set(together)) != len(together) or len(together) == 1:
        raise RequestError(
            f"{rules.same_card} requires at least two different containers, but lists {', '.join(together)}"
        )
    for name in together:
        if name not in by_name or by_name[name].cards != 1 or by_name[name].whole:
            raise RequestError(f"{rules.same_card} names {name}, which does not request exactly one card")


def _parse_card_numbers(annotations: Mapping[str, str], key: str) -> frozenset[int]:
    text = annotations.get(key, "")
    check_length(key, text)
    words = {word.strip() for word in text.split(",")} - {""}
    if len(words) > MAX_CARDS:
        raise RequestError(f"{key} names {len(words)} cards; at most {MAX_CARDS} are allowed")
    numbers = {word: parse_card_name(word) for word in words}
    if wrong := sorted(word for word, number in numbers.items() if number is None):
        raise RequestError(f"{key} contains invalid names: {', '.join(wrong)}", next_step="write it as card0,card1")
    return frozenset(number for number in numbers.values() if number is not None)
