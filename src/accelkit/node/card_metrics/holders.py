"""The containers to which cards are allocated, with the amount of memory that the kubelet allocated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from accelkit.model.assignment import MOVING
from accelkit.model.card import Card
from accelkit.model.request import Kind
from accelkit.node.pods import NodePod


class CardHolder(NamedTuple):
    """A container that has a share of a card."""

    namespace: str
    pod: str
    container: str
    card: str


@dataclass(frozen=True, slots=True)
class Holdings:
    """The holders of a node's cards.

    Attributes:
        memory_bytes: the memory that is allocated to each container. Containers with an unknown amount are omitted.
        alone: for each card that only one pod uses, that pod, with the container if only one container uses the card.
            Cards that several pods share are omitted.
    """

    memory_bytes: Mapping[CardHolder, int]
    alone: Mapping[str, CardHolder]


def list_holdings(pods: Iterable[NodePod], cards: Mapping[str, Card]) -> Holdings:
    """Return the holdings of the admitted pods. No cards are allocated to a pod before its admission.

    If the cards of a pod are unknown, `alone` is empty, because the pod may use any card.
    """
    admitted = [each for each in pods if each.admitted]
    amounts: Counter[CardHolder] = Counter()
    containers: dict[str, set[CardHolder]] = defaultdict(set)
    for each in admitted:
        for holder, amount in _list_shares(each, cards):
            containers[holder.card].add(holder)
            if amount:
                amounts[holder] += amount
    known = all(each.assigned is not None for each in admitted)
    alone = {card: _merge(holders) for card, holders in containers.items() if len({each[:2] for each in holders}) == 1}
    return Holdings(dict(sorted(amounts.items())), alone if known else {})


def _list_shares(each: NodePod, cards: Mapping[str, Card]) -> Iterable[tuple[CardHolder, int]]:
    kinds = dict(each.pod.order)
    shares = {} if each.assigned is None else each.assigned.assignment.containers
    for name, held in shares.items():
        # The kubelet reuses the devices of a completed init container for subsequent containers.
        if name == MOVING or (kinds.get(name) is Kind.INIT and name not in each.running):
            continue
        for share in held:
            card = cards.get(share.card)
            whole = card.own_bytes if share.whole and card is not None else 0
            yield CardHolder(each.pod.ref.namespace, each.pod.ref.name, name, share.card), whole or share.memory_bytes


def _merge(holders: Iterable[CardHolder]) -> CardHolder:
    first, *others = sorted(holders)
    return first._replace(container="") if others else first
