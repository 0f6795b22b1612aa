"""KubeGPU's nested groups: an annotation that requests cards by names such as `gpugrp1/A/gpugrp0/B/gpu/0/cards`.

Cards in one inner group are below the same PCI switches, and cards in one outer group are on one socket. The names of
groups and cards have no other meaning: two groups may be on the same switch or socket of the node. The amounts are read
from the limits, because the kubelet allocates devices according to the limits. The annotation restricts the cards and
their minimum memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from accelkit.errors import RequestError
from accelkit.model.request import CardGroup, ContainerRequest, Near
from accelkit.model.units import MAX_AMOUNT
from accelkit.placement.policies import Policy
from accelkit.vendors.counted_requests import check_length
from accelkit.vendors.dialect import GroupNames

# The scoring functions of KubeGPU that accelkit accepts: the default, and the function that packs cards tightly.
_SCORERS: Final = frozenset({0, 1})
_CARDS: Final = "cards"
_MEMORY: Final = "memory"

# The names of the outer group, the inner group and the card. The name of an unnamed group is empty.
_Name = tuple[str, str, str]


class _Container(msgspec.Struct):
    requests: dict[str, int] | None = None
    scorer: dict[str, int] | None = None


class _PodInfo(msgspec.Struct):
    """The part of KubeGPU's PodInfo that users write, without the fields that KubeGPU's scheduler adds."""

    requests: dict[str, int] | None = None
    initcontainer: dict[str, _Container] | None = None
    runningcontainer: dict[str, _Container] | None = None

    @property
    def containers(self) -> dict[str, _Container]:
        return {**(self.initcontainer or {}), **(self.runningcontainer or {})}


_pod_info = msgspec.json.Decoder(_PodInfo)


@dataclass(slots=True)
class _CardCounts:
    """The request of a container: the number of cards, and the minimum memory of each named card."""

    count: int = 0
    least: dict[_Name, int] = field(default_factory=dict)

    @property
    def cards(self) -> int:
        return max(self.count, len(self.least))


def apply_groups(
    annotations: Mapping[str, str], names: GroupNames, requests: Mapping[str, ContainerRequest], own: Collection[str]
) -> dict[str, ContainerRequest]:
    """Return the requests with the groups and the minimum memory from the pod's annotation.

    Args:
        annotations: the annotations of the pod.
        names: the key of the annotation, and the terms that it contains.
        requests: the requests by container.
        own: the containers that request whole cards through the limits of this dialect.

    Raises:
        RequestError: the annotation cannot be read, or the request in it is invalid.
    """
    key = names.annotation
    text = annotations.get(key, "{}")
    check_length(key, text)
    try:
        info = _pod_info.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise RequestError(f"cannot read {key}: {exc}") from exc
    counts = {name: found for name, each in info.containers.items() if (found := _read(name, each, names)).cards}
    for name, found in counts.items():
        limit = requests[name].cards if name in own else 0
        if found.cards > limit:
            cards = f"{found.cards} card{'' if found.cards == 1 else 's'}"
            raise RequestError(
                f"{key} requests {cards} for container {name}, whose limit {names.counts[0]} is {limit}",
                next_step="set the limit to the number of its cards, because the kubelet allocates the limit",
            )
    policy = Policy.TOPOLOGY.value if _read_topology(info, names) else ""
    return {
        name: _refine(each, counts.get(name, _CardCounts()), policy) if name in own else each
        for name, each in requests.items()
    }


def build_groups(least: Mapping[_Name, int], cards: int) -> tuple[CardGroup, ...]:
    """Return the groups of a container with this number of cards; empty if every set of cards is accepted.

    Args:
        least: the minimum memory of each named card, in bytes, by outer group, inner group and card.
        cards: the number of cards. Any card can be used as an unnamed card.
    """
    sockets: dict[_Name, dict[_Name, list[int]]] = {}
    for (outer, inner, card), memory in sorted(least.items()):
        # A group without an outer group, or a card without a group, is treated as a separate group.
        socket = (outer, "", "") if outer else ("", inner, "" if inner else card)
        switch = ("", inner, "" if inner else card)
        sockets.setdefault(socket, {}).setdefault(switch, []).append(memory)
    groups: list[CardGroup] = []
    free = [0] * (cards - len(least))
    for number, switches in enumerate(sockets.values()):
        together = [mins for mins in switches.values() if len(mins) > 1]
        alone = [mins[0] for mins in switches.values() if len(mins) == 1]
        if len(alone) == 1 and not together:
            free += alone
            continue
        # The cards of a single group are always on one socket.
        socket_number = number if len(together) + bool(alone) > 1 else None
        groups += [_build_group(Near.SWITCH, mins, socket_number) for mins in together]
        groups += [_build_group(Near.SOCKET, alone, socket_number)] if alone else []
    if free and (groups or len(set(free)) > 1):
        groups.append(_build_group(Near.ANY, free, None))
    return tuple(groups)


def _build_group(near: Near, mins: Iterable[int], socket: int | None) -> CardGroup:
    return CardGroup(near, tuple(sorted(mins, reverse=True)), socket)


def _refine(request: ContainerRequest, counts: _CardCounts, policy: str) -> ContainerRequest:
    least = {name: max(memory, request.min_memory_bytes) for name, memory in counts.least.items()}
    every = min(least.values()) if len(least) == request.cards else request.min_memory_bytes
    return msgspec.structs.replace(
        request,
        policy=request.policy or policy,
        min_memory_bytes=every,
        groups=build_groups(least, request.cards),
    )


def _read_topology(info: _PodInfo, names: GroupNames) -> bool:
    """Return whether the pod requests the best connected cards, which is the default."""
    lists = (info.requests, *(each.requests for each in info.containers.values()))
    values = [found[names.topology] for found in lists if found and names.topology in found]
    for value in values:
        if value not in {0, 1}:
            raise RequestError(
                f"{names.annotation}: {names.topology} is {value}",
                next_step="set it to 1 for the best connected cards, or to 0 for any cards",
            )
    return all(values)


def _read(container: str, given: _Container, names: GroupNames) -> _CardCounts:
    """Return the cards that a container requests. Other resources are ignored."""
    amounts: dict[_Name, dict[str, int]] = {}
    found = _CardCounts()
    for resource, amount in (given.requests or {}).items():
        name = _split(container, resource, names)
        if name is None and resource not in names.counts:
            continue
        if not 0 <= amount <= MAX_AMOUNT:
            raise _refuse(container, resource, names, f"the invalid amount {amount}")
        if name is None:
            found.count = max(found.count, amount)
        else:
            amounts.setdefault(name[0], {})[name[1]] = amount
    for resource, scorer in (given.scorer or {}).items():
        if resource.startswith(names.prefixes) and scorer not in _SCORERS:
            raise _refuse(container, resource, names, f"scorer {scorer}", "remove it: accelkit packs cards tightly")
    found.least = {name: each[_MEMORY] for name, each in amounts.items() if _check_card(container, name, each, names)}
    return found


def _check_card(container: str, name: _Name, amounts: dict[str, int], names: GroupNames) -> bool:
    """Return whether a named card is requested. If `amounts` has no minimum memory for the card, set it to 0."""
    path = "/".join(filter(None, name))
    if amounts.get(_CARDS, 0) > 1:
        raise _refuse(container, path, names, f"{amounts[_CARDS]} cards with one name", "name each card separately")
    if not amounts.get(_CARDS) and amounts.get(_MEMORY):
        step = f"add {_CARDS}: 1, or request accelkit.io/memory on a shared card"
        raise _refuse(container, path, names, "memory of a card that it does not request", step)
    amounts.setdefault(_MEMORY, 0)
    return bool(amounts.get(_CARDS))


def _split(container: str, resource: str, names: GroupNames) -> tuple[_Name, str] | None:
    """Return the groups, the card and the last word from the name of a resource; None for other resources."""
    prefix = next((each for each in names.prefixes if resource.startswith(each)), None)
    if prefix is None:
        return None
    words = resource.removeprefix(prefix).split("/")
    groups = ["", ""]
    for place, word in enumerate((names.socket, names.switch)):
        if words[0] == word and len(words) > 1:
            groups[place] = words[1]
            # An empty name of a group or card is invalid.
            words = words[2:] if words[1] else []
            words = words or [""]
    match words:
        case [names.card, str(card), ("cards" | "memory") as amount] if card:
            return (groups[0], groups[1], card), amount
    known = f"{prefix}[{names.socket}/A/][{names.switch}/B/]{names.card}/0/{_CARDS} or …/{_MEMORY}"
    raise _refuse(container, resource, names, "an unsupported resource", f"request {known}")


def _refuse(container: str, resource: str, names: GroupNames, what: str, next_step: str = "") -> RequestError:
    return RequestError(f"{names.annotation}: container {container} requests {what}: {resource}", next_step=next_step)
