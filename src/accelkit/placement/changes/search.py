"""Search for changes on one node, from the smallest kind to the largest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec

from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.cards_back import find_card_back
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.constraints import find_without_constraint
from accelkit.placement.changes.ended_pods import find_ended_pods
from accelkit.placement.changes.probe import Probe, Search
from accelkit.placement.changes.reductions import find_fewer_cards, find_less_compute, find_less_memory
from accelkit.placement.changes.situation import Situation, Terms
from accelkit.placement.policies import AnyPolicy


def search_changes(
    situation: Situation, request: PodRequest, policy: AnyPolicy, terms: Terms, budget: Budget
) -> Iterator[Change | None]:
    """Yield the changes that would make a pod fit a node, at most one of each kind, with the smallest kind first.

    Also yield None after each trial, so that other work can run in between. The search stops early if all steps of the
    budget are used.

    Args:
        situation: the snapshot of the node, which the pod does not fit.
        request: the request of the pod.
        policy: the policy that ranks cards if the pod does not name one.
        terms: the permitted changes to the request.
        budget: the remaining steps for all nodes. Each trial subtracts its steps.
    """
    kinds = set[ChangeKind]()
    for kind, find in _STAGES:
        if kind in kinds:
            continue
        probe = Probe(policy, budget)
        found = yield from find(probe, situation, request, terms)
        if found is not None:
            kinds.add(kind)
            yield msgspec.structs.replace(found, proven=found.proven and not probe.unsure)
        if budget.is_spent():
            return


_Find: TypeAlias = Callable[[Probe, Situation, PodRequest, Terms], Search[Change | None]]
_STAGES: Final[Sequence[tuple[ChangeKind, _Find]]] = (
    (ChangeKind.LESS_MEMORY, partial(find_less_memory, large=False)),
    (ChangeKind.LESS_COMPUTE, partial(find_less_compute, large=False)),
    (ChangeKind.WITHOUT_CONSTRAINT, find_without_constraint),
    (ChangeKind.FEWER_CARDS, partial(find_fewer_cards, large=False)),
    (ChangeKind.CARD_BACK, find_card_back),
    (ChangeKind.PODS_ENDED, find_ended_pods),
    (ChangeKind.LESS_MEMORY, partial(find_less_memory, large=True)),
    (ChangeKind.LESS_COMPUTE, partial(find_less_compute, large=True)),
    (ChangeKind.FEWER_CARDS, partial(find_fewer_cards, large=True)),
)
