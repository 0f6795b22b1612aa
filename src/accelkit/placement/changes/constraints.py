"""Changes that omit one constraint of a request."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.model.request import ContainerRequest, PodRequest
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.probe import Probe, Search
from accelkit.placement.changes.reductions import replace_containers
from accelkit.placement.changes.situation import Situation, Terms

# Fields that are not constraints: the container, its amounts, and the policy.
_OTHERS: Final = frozenset(
    {"container", "kind", "cards", "memory_bytes", "compute", "whole", "policy", "counted_by", "closed"}
)
# Constraints that are omitted first, because the position of a card is less important to users than its identity.
_FIRST: Final = ("numa", "link", "same_card_as", "model")
# The values of the constraints in a request without constraints, in the order of the trials.
_NONE: Final[Mapping[str, object]] = MappingProxyType(
    {
        field.name: field.default
        for field in sorted(
            msgspec.structs.fields(ContainerRequest),
            key=lambda field: _FIRST.index(field.name) if field.name in _FIRST else len(_FIRST),
        )
        if field.name not in _OTHERS
    }
)
# Constraints that apply to all containers of a pod.
_OF_PODS: Final = frozenset({"allowed", "denied"})


def find_without_constraint(probe: Probe, node: Situation, request: PodRequest, terms: Terms) -> Search[Change | None]:
    """Return the change that omits one constraint of one container or, if this is not sufficient, of all containers.

    Return None if the pod would not fit without any single constraint.
    """
    for number, (name, none) in enumerate(_NONE.items()):
        places = [place for place, container in enumerate(request.containers) if getattr(container, name) != none]
        if not places or name in terms.fixed:
            continue
        singles = [] if name in _OF_PODS else [(place,) for place in places]
        for chosen in [*singles, tuple(places)] if len(places) > 1 or not singles else singles:
            changed = replace_containers(request, chosen, **{name: none})
            if taken := (yield from probe.find_cards(node.states, changed)):
                container = request.containers[chosen[0]].container if len(chosen) == 1 and singles else ""
                size = (len(chosen), number)
                return Change(ChangeKind.WITHOUT_CONSTRAINT, container, constraint=name, taken=taken, size=size)
    return None
