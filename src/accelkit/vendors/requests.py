"""Requests from pods: container limits with a dialect's resource names, refined by `accelkit.io/request`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import msgspec

from accelkit.errors import QuantityError, RequestError
from accelkit.model.card import MAX_CARD_ID
from accelkit.model.keys import REQUEST_ANNOTATION
from accelkit.model.request import MAX_CARDS, MAX_CONTAINERS, ContainerRequest, PodRequest, PodSelector
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE, parse_quantity
from accelkit.placement.policies import Policy
from accelkit.texts import count_cards
from accelkit.vendors.counted_requests import (
    CardContainer,
    apply_pod_rules,
    check_length,
    parse_amount,
    read_counted_request,
)
from accelkit.vendors.dialect import Dialect, GroupNames
from accelkit.vendors.grouped_requests import apply_groups

# The maximum number of labels in a selector, and the maximum lengths of a label in Kubernetes.
MAX_LABELS: Final = 16
MAX_LABEL_KEY: Final = 317
MAX_LABEL_VALUE: Final = 63
# The limit applies to the total for all containers of a pod, because each selector is compared with the labels of every
# pod that has cards.
MAX_SELECTORS: Final = 8


class DeviceLimits(msgspec.Struct, frozen=True):
    """The limits that determine the devices that a kubelet allocates to a container: memory units, and whole cards."""

    dialect: Dialect
    memory: int
    cards: int


class LabelSelector(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A selector of the pods in the same namespace that have all of the labels."""

    match_labels: dict[str, str]


class Refinement(msgspec.Struct, frozen=True, rename={"beside": "with"}):
    """The entry of one container in `accelkit.io/request`."""

    split: int = 1
    compute: int = 0
    model: str = ""
    same_card_as: str = ""
    link: str = ""
    numa: str = ""
    policy: str = ""
    min_memory: str | int = 0
    card_ids: tuple[str, ...] = ()
    beside: LabelSelector | None = None
    apart: LabelSelector | None = None
    nic: bool = False


_raw_refinements = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])
_refinements = msgspec.json.Decoder(dict[str, Refinement])


def read_request(
    containers: Sequence[CardContainer], annotations: Mapping[str, str], dialects: Sequence[Dialect], unit_bytes: int
) -> PodRequest | None:
    """Return the request of a pod; None if it does not request cards.

    Args:
        containers: the containers of the pod, in the order in which the kubelet allocates devices.
        annotations: the annotations of the pod.
        dialects: the dialects to try. A container is read in the first dialect from which it requests resources.
        unit_bytes: the size of one memory unit, in bytes.

    Raises:
        RequestError: the request is invalid.
    """
    requesting = _list_requesting(containers, dialects)
    refinements = _read_refinements(annotations)
    requests: dict[str, ContainerRequest] = {}
    # The containers that request whole cards in a dialect with groups.
    grouped: dict[GroupNames, list[str]] = {}
    one_card = ""
    for container in requesting:
        found = read_device_limits(container, dialects)
        if found is None:
            other = read_counted_request(container, dialects)
            requests |= {other.container: other} if other else {}
            continue
        names = found.dialect.resources
        if found.memory and found.cards:
            raise RequestError(
                f"container {container.name} requests {names.memory} and {names.cards}",
                next_step="request either memory on shared cards or whole cards, not both",
            )
        refinement = refinements.pop(container.name, Refinement())
        if found.dialect.one_card_per_pod and found.memory and not refinement.same_card_as:
            refinement = msgspec.structs.replace(refinement, same_card_as=one_card)
        request = _refine(container, refinement, memory=found.memory, cards=found.cards, unit_bytes=unit_bytes)
        _check_references(request, requests)
        _check_selectors(request)
        one_card = one_card or (request.container if found.memory else "")
        if found.dialect.groups and found.cards:
            grouped.setdefault(found.dialect.groups, []).append(request.container)
        requests[request.container] = request
    _check_selector_count(requests.values())
    if refinements:
        raise RequestError(
            f"{REQUEST_ANNOTATION} has entries without a card request: {', '.join(sorted(refinements))}",
            next_step=f"the containers that request cards are: {', '.join(requests) or 'none'}",
        )
    for groups in dict.fromkeys(dialect.groups for dialect in dialects if dialect.groups):
        requests = apply_groups(annotations, groups, requests, grouped.get(groups, ()))
    return PodRequest(apply_pod_rules(annotations, dialects, list(requests.values()))) if requests else None


def _list_requesting(containers: Sequence[CardContainer], dialects: Sequence[Dialect]) -> list[CardContainer]:
    """Return the containers that request a card resource; raise RequestError if there are too many."""
    resources = frozenset().union(*(dialect.resources.requestable for dialect in dialects))
    requesting = [container for container in containers if not resources.isdisjoint(container.limits)]
    if len(requesting) > MAX_CONTAINERS:
        raise RequestError(f"{len(requesting)} containers request cards; at most {MAX_CONTAINERS} in a pod are allowed")
    return requesting


def read_device_limits(container: CardContainer, dialects: Sequence[Dialect]) -> DeviceLimits | None:
    """Return a container's limits in the first dialect in which it requests units of memory or whole cards.

    Raises:
        RequestError: a limit cannot be read, or the container also requests devices from another system.
    """
    for dialect in dialects:
        names = dialect.resources
        if not names.memory:
            continue
        memory, cards = parse_amount(container, names.memory), parse_amount(container, names.cards)
        if memory or cards:
            if read_counted_request(container, dialects):
                raise RequestError(
                    f"container {container.name} requests {names.memory if memory else names.cards} and cards in "
                    "another system's resources",
                    next_step="request one of them, because each system's device plugin would allocate devices to it",
                )
            return DeviceLimits(dialect, memory, cards)
        if names.memory in container.limits or names.cards in container.limits:
            return None
    return None


def _refine(
    container: CardContainer, refinement: Refinement, *, memory: int, cards: int, unit_bytes: int
) -> ContainerRequest:
    name = container.name
    if cards and (refinement.split != 1 or refinement.compute):
        raise RequestError(
            f"container {name} requests whole cards, for which split and compute are not allowed",
            next_step="remove split and compute, or request memory",
        )
    if not 1 <= refinement.split <= MAX_CARDS or cards > MAX_CARDS:
        raise RequestError(
            f"container {name} requests {cards or refinement.split} cards; at most {MAX_CARDS} are allowed"
        )
    if not 0 <= refinement.compute <= WHOLE_COMPUTE:
        raise RequestError(f"container {name}: compute must be between 0 and {WHOLE_COMPUTE} thousandths of a card")
    if memory % refinement.split:
        raise RequestError(
            f"container {name}: {memory} units cannot be split evenly over {refinement.split} cards",
            next_step=f"request a multiple of {refinement.split}",
        )
    if memory * unit_bytes > MAX_AMOUNT:
        raise RequestError(f"container {name} requests more memory than any node can have ({memory} units)")
    if refinement.numa not in ("", "single"):
        raise RequestError(f"container {name}: numa must be 'single', not {refinement.numa!r}")
    if refinement.policy and refinement.policy not in list(Policy):
        raise RequestError(f"container {name}: policy {refinement.policy!r} is not one of {', '.join(Policy)}")
    return ContainerRequest(
        name,
        container.kind,
        cards or refinement.split,
        memory * unit_bytes // refinement.split,
        refinement.compute,
        whole=bool(cards),
        model=refinement.model,
        same_card_as=refinement.same_card_as,
        link=refinement.link,
        numa=refinement.numa,
        policy=refinement.policy,
        min_memory_bytes=_read_min_memory(name, refinement.min_memory),
        card_ids=_read_card_ids(name, refinement.card_ids, cards or refinement.split),
        beside=_read_selector(name, "with", refinement.beside, whole=bool(cards)),
        apart=_read_selector(name, "apart", refinement.apart, whole=bool(cards)),
        nic=refinement.nic,
    )


def _read_card_ids(container: str, card_ids: tuple[str, ...], cards: int) -> frozenset[str]:
    found = frozenset(card_ids)
    if len(found) > MAX_CARDS or not all(0 < len(each) <= MAX_CARD_ID for each in found):
        raise RequestError(
            f"container {container}: card_ids can contain at most {MAX_CARDS} IDs of 1 to {MAX_CARD_ID} characters",
            next_step="list the IDs of cards with accelkit inspect",
        )
    if found and len(found) < cards:
        raise RequestError(
            f"container {container} requests {count_cards(cards)}, but card_ids contains only {len(found)}",
            next_step="list at least as many cards as it requests",
        )
    return found


def _read_selector(container: str, key: str, selector: LabelSelector | None, *, whole: bool) -> PodSelector | None:
    if selector is None:
        return None
    if whole:
        raise RequestError(
            f"container {container} requests whole cards, which cannot be shared, and has {key!r}",
            next_step=f"request memory, or remove {key}",
        )
    labels = selector.match_labels
    if not 0 < len(labels) <= MAX_LABELS or not all(_is_label(*each) for each in labels.items()):
        raise RequestError(
            f"container {container}: {key} must have 1 to {MAX_LABELS} valid labels under matchLabels",
            next_step=f'write it as {{"{key}": {{"matchLabels": {{"app": "NAME"}}}}}}',
        )
    return PodSelector(tuple(sorted(f"{name}={value}" for name, value in labels.items())))


def _is_label(key: str, value: str) -> bool:
    return 0 < len(key) <= MAX_LABEL_KEY and "=" not in key and len(value) <= MAX_LABEL_VALUE


def _check_selectors(request: ContainerRequest) -> None:
    beside, apart = request.beside, request.apart
    if beside is not None and apart is not None and set(apart.labels) <= set(beside.labels):
        raise RequestError(
            f"container {request.container}: apart selects all pods that with selects, so no card is accepted",
            next_step="remove one of them",
        )


def _check_selector_count(requests: Iterable[ContainerRequest]) -> None:
    selectors = {selector for request in requests for selector in request.selectors}
    if len(selectors) > MAX_SELECTORS:
        raise RequestError(
            f"with and apart contain {len(selectors)} different sets of labels; at most {MAX_SELECTORS} are allowed",
            next_step="add a common label to the selected pods",
        )


def _read_min_memory(container: str, amount: str | int) -> int:
    try:
        return parse_quantity(amount)
    except QuantityError as exc:
        raise RequestError(
            f"container {container}: min_memory: {exc.message}", next_step="write it as 40Gi, or in bytes"
        ) from exc


def _check_references(request: ContainerRequest, earlier: Mapping[str, ContainerRequest]) -> None:
    if not request.same_card_as:
        return
    other = earlier.get(request.same_card_as)
    if other is None:
        raise RequestError(
            f"container {request.container}: same_card_as is {request.same_card_as!r}",
            next_step="set it to an earlier container of the pod that has cards",
        )
    if request.cards > other.cards or request.whole != other.whole:
        raise RequestError(
            f"container {request.container} cannot share the cards of {other.container}",
            next_step="request memory on at most as many cards as that container has",
        )


def _read_refinements(annotations: Mapping[str, str]) -> dict[str, Refinement]:
    text = annotations.get(REQUEST_ANNOTATION)
    if text is None:
        return {}
    check_length(REQUEST_ANNOTATION, text)
    try:
        raw = _raw_refinements.decode(text)
        for container, entry in raw.items():
            for key in entry.keys() - set(Refinement.__struct_encode_fields__):
                keys = Refinement.__struct_encode_fields__
                near = get_close_matches(key, keys, 1)
                hint = f"did you mean {near[0]}?" if near else f"keys are {', '.join(keys)}"
                raise RequestError(
                    f"{REQUEST_ANNOTATION}: container {container} has the unknown key {key!r}", next_step=hint
                )
        return _refinements.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise RequestError(f"cannot read {REQUEST_ANNOTATION}: {exc}") from exc
