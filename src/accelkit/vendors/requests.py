"""Reads what a pod asks for: container limits in a dialect's resource names, refined by `accelkit.io/request`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Final

import msgspec

from accelkit.errors import RequestError
from accelkit.model.pod import Container, Pod
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE
from accelkit.placement.policies import Policy
from accelkit.vendors.asks import amount_of, ask_of, bounded
from accelkit.vendors.dialects import Dialect

REQUEST_ANNOTATION: Final = "accelkit.io/request"
# More cards than any machine has; beyond it a request is a mistake, and its combinations a trap.
_MAX_CARDS = 128


class Refinement(msgspec.Struct, frozen=True):
    """One container's entry in `accelkit.io/request`."""

    split: int = 1
    compute: int = 0
    model: str = ""
    same_card_as: str = ""
    link: str = ""
    numa: str = ""
    policy: str = ""


def containers_in_order(pod: Pod) -> Iterator[tuple[Container, Kind]]:
    """Yield a pod's containers in the order in which the kubelet allocates, with their kinds."""
    for container in pod.spec.init_containers or ():
        yield container, Kind.SIDECAR if container.restart_policy == "Always" else Kind.INIT
    for container in pod.spec.containers:
        yield container, Kind.APP


def asks_for_cards(pod: Pod, dialects: Sequence[Dialect]) -> bool:
    """Whether any container names a resource of any of the dialects; cheap, for the many pods that do not."""
    names = [name for dialect in dialects for name in dialect.resources.asking]
    return any(
        name in container.resources.limits
        for container, _ in containers_in_order(pod)
        if container.resources.limits
        for name in names
    )


def holders(pod: Pod, dialects: Sequence[Dialect]) -> Iterator[tuple[str, str, bool]]:
    """Yield what the kubelet will give: container, resource, and whether it is whole cards; refinements left aside."""
    for container, _ in containers_in_order(pod):
        limits = container.resources.limits or {}
        for dialect in dialects:
            for resource in dialect.resources.asking:
                if limits.get(resource, 0) not in (0, "0"):
                    yield container.name, resource, resource == dialect.resources.cards


def limits_of(pod: Pod, resource: str) -> dict[str, int]:
    """Return the limit of each container that asks for a resource; those that cannot be read are left out."""
    limits: dict[str, int] = {}
    for container, _ in containers_in_order(pod):
        with suppress(RequestError):
            if amount := amount_of(container, resource):
                limits[container.name] = amount
    return limits


def dialect_of(pod: Pod, dialects: Sequence[Dialect]) -> Dialect:
    """Return the first dialect whose resources the pod names, else the first of all."""
    named = {name for container, _ in containers_in_order(pod) for name in container.resources.limits or ()}
    for dialect in dialects:
        if named & set(dialect.resources.asking):
            return dialect
    return dialects[0]


def read_request(pod: Pod, dialects: Sequence[Dialect], unit_bytes: int) -> PodRequest | None:
    """Read what a pod asks for, None where it asks for no card.

    Args:
        pod: the pod.
        dialects: read in this order; a container speaks the first one whose resources it names.
        unit_bytes: what one unit of memory is on this cluster.

    Raises:
        RequestError: it asks for what cannot be granted as written, with the reason.
    """
    refinements = _refinements(pod)
    requests: list[ContainerRequest] = []
    one_card = ""
    for container, kind in containers_in_order(pod):
        found = _amounts(container, dialects)
        if found is None:
            other = ask_of(container, kind, dialects)
            requests += [other] if other else []
            continue
        dialect, memory, cards = found
        refinement = refinements.pop(container.name, Refinement())
        if dialect.one_card_per_pod and memory and not refinement.same_card_as:
            refinement = msgspec.structs.replace(refinement, same_card_as=one_card)
        request = _container_request(
            container.name, kind, refinement, memory=memory, cards=cards, unit_bytes=unit_bytes
        )
        _check_references(request, requests)
        one_card = one_card or (request.container if memory else "")
        requests.append(request)
    if refinements:
        raise RequestError(
            f"{REQUEST_ANNOTATION} names {', '.join(sorted(refinements))}, which asks for no card",
            next_step=f"containers that do: {', '.join(r.container for r in requests) or 'none'}",
        )
    return PodRequest(bounded(pod, dialects, requests)) if requests else None


def _amounts(container: Container, dialects: Sequence[Dialect]) -> tuple[Dialect, int, int] | None:
    limits = container.resources.limits or {}
    for dialect in dialects:
        names = dialect.resources
        if not names.memory:
            continue
        memory, cards = amount_of(container, names.memory), amount_of(container, names.cards)
        if memory and cards:
            raise RequestError(
                f"container {container.name} asks for {names.memory} and {names.cards}",
                next_step="ask for memory on shared cards or for whole cards, not both",
            )
        if memory or cards:
            return dialect, memory, cards
        if names.memory in limits or names.cards in limits:
            return None
    return None


def _container_request(
    name: str, kind: Kind, refinement: Refinement, *, memory: int, cards: int, unit_bytes: int
) -> ContainerRequest:
    if cards and (refinement.split != 1 or refinement.compute):
        raise RequestError(f"container {name} asks for whole cards, which are neither split nor share their compute")
    if not 1 <= refinement.split <= _MAX_CARDS or cards > _MAX_CARDS:
        raise RequestError(f"container {name} asks for {cards or refinement.split} cards, at most {_MAX_CARDS} can be")
    if not 0 <= refinement.compute <= WHOLE_COMPUTE:
        raise RequestError(f"container {name}: compute is in thousandths of a card, 0 to {WHOLE_COMPUTE}")
    if memory % refinement.split:
        raise RequestError(
            f"container {name}: {memory} units do not divide over {refinement.split} cards",
            next_step=f"ask for a multiple of {refinement.split}",
        )
    if memory * unit_bytes > MAX_AMOUNT:
        raise RequestError(f"container {name} asks for an absurd amount of memory ({memory} units)")
    if refinement.numa not in ("", "single"):
        raise RequestError(f"container {name}: numa can only be 'single', not {refinement.numa!r}")
    if refinement.policy and refinement.policy not in list(Policy):
        raise RequestError(f"container {name}: policy {refinement.policy!r} is none of {', '.join(Policy)}")
    return ContainerRequest(
        name,
        kind,
        cards or refinement.split,
        memory * unit_bytes // refinement.split,
        refinement.compute,
        whole=bool(cards),
        model=refinement.model,
        same_card_as=refinement.same_card_as,
        link=refinement.link,
        numa=refinement.numa,
        policy=refinement.policy,
    )


def _check_references(request: ContainerRequest, earlier: Sequence[ContainerRequest]) -> None:
    if not request.same_card_as:
        return
    other = next((other for other in earlier if other.container == request.same_card_as), None)
    if other is None:
        raise RequestError(
            f"container {request.container}: same_card_as names {request.same_card_as!r}",
            next_step="it must be a container with cards that comes before it",
        )
    if request.cards > other.cards or request.whole != other.whole:
        raise RequestError(
            f"container {request.container} can never share the cards of {other.container}",
            next_step="ask for memory on at most as many cards as that container has",
        )


def _refinements(pod: Pod) -> dict[str, Refinement]:
    text = pod.annotation(REQUEST_ANNOTATION)
    if text is None:
        return {}
    try:
        raw = msgspec.json.decode(text, type=dict[str, dict[str, msgspec.Raw]])
        for container, entry in raw.items():
            for key in entry.keys() - set(Refinement.__struct_fields__):
                near = get_close_matches(key, Refinement.__struct_fields__, 1)
                hint = f"did you mean {near[0]}?" if near else f"keys are {', '.join(Refinement.__struct_fields__)}"
                raise RequestError(
                    f"{REQUEST_ANNOTATION}: container {container} has the unknown key {key!r}", next_step=hint
                )
        return msgspec.json.decode(text, type=dict[str, Refinement])
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise RequestError(f"{REQUEST_ANNOTATION} cannot be read: {exc}") from exc
