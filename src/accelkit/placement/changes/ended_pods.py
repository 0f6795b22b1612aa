"""Changes in which other pods on the node terminate.

The search first tries single pods and pairs of pods, starting with the pods that free the least memory. Pods with equal
holdings are interchangeable. If more pods have to terminate, the search removes the pods on the cards that require the
fewest removals. If these cards cannot be determined, it removes all pods. It then restores as many of these pods as
possible, the smallest pods first. The result contains only pods that cannot be restored, but a smaller set may
exist.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from operator import itemgetter
from typing import Final

from accelkit.model.request import PodRequest
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.probe import Probe, Search
from accelkit.placement.changes.situation import ShareHolder, Situation, Terms, bound_lack, list_suiting

# The limits on the number of classes and pairs. If there are more classes of pods, pairs are formed only from the
# classes with the most memory. If there are more pairs, only the smallest pairs are tried.
_MOST_CLASSES: Final = 40
_MOST_PAIRS: Final = 200


def find_ended_pods(probe: Probe, node: Situation, request: PodRequest, _: Terms) -> Search[Change | None]:
    """Return the smallest set of pods that have to terminate; None if the pod would not fit the empty node."""
    holders = sorted(node.holders, key=_order)
    if not (yield from _find_cards_without(probe, node, request, holders)):
        return None
    classes = _classify(holders)
    lack = bound_lack(node.states, request.containers)
    sets = [same[:1] for same in classes]
    some = len(classes) > _MOST_CLASSES
    pairs = sorted(_list_pairs(classes[-_MOST_CLASSES:]), key=_sum_up)
    # Pairs that free too little memory are not tried.
    sets += [pair for pair in pairs if _sum_up(pair) >= lack][:_MOST_PAIRS]
    for gone in sets:
        if _sum_up(gone) >= lack and (taken := (yield from _find_cards_without(probe, node, request, gone))):
            return _name(gone, taken, proven=len(gone) == 1 or not some)
    fewest = _choose_fewest(node, request)
    if (yield from _find_cards_without(probe, node, request, fewest)):
        return (yield from _give_back(probe, node, request, fewest))
    return (yield from _give_back(probe, node, request, holders))


def _choose_fewest(node: Situation, request: PodRequest) -> list[ShareHolder]:
    """Return the pods on the cards that require the fewest removals; empty if the cards cannot be determined."""
    if len(request.containers) > 1 or any(holder.charges is None for holder in node.holders):
        return []
    (container,) = request.containers
    on_cards: dict[int, list[tuple[int, ShareHolder]]] = {}
    for holder in node.holders:
        for place, charge in holder.charges or ():
            on_cards.setdefault(place, []).append((charge.memory_bytes, holder))
    suiting = {id(state) for state in list_suiting(node.states, container)}
    found: list[list[ShareHolder]] = []
    for place, state in enumerate(node.states):
        if id(state) in suiting:
            lack = math.inf if container.whole else container.memory_bytes - state.free_bytes
            found.append(_free(sorted(on_cards.get(place, ()), key=itemgetter(0), reverse=True), lack))
    found.sort(key=lambda gone: (len(gone), _sum_up(gone)))
    chosen = {holder.pod.uid: holder for gone in found[: container.cards] for holder in gone}
    return sorted(chosen.values(), key=_order)


def _free(held: Sequence[tuple[int, ShareHolder]], lack: float) -> list[ShareHolder]:
    """Return the largest pods on a card that together free the missing amount; all pods if no set is sufficient."""
    gone = []
    for memory_bytes, holder in held:
        if lack <= 0:
            break
        lack -= memory_bytes
        gone.append(holder)
    return gone


def _give_back(
    probe: Probe, node: Situation, request: PodRequest, holders: Sequence[ShareHolder]
) -> Search[Change | None]:
    gone = list(holders)
    kept = yield from _find_cards_without(probe, node, request, gone)
    for holder in holders:
        others = [each for each in gone if each is not holder]
        if taken := (yield from _find_cards_without(probe, node, request, others)):
            gone, kept = others, taken
    return _name(gone, kept, proven=False) if kept else None


def _find_cards_without(
    probe: Probe, node: Situation, request: PodRequest, gone: Sequence[ShareHolder]
) -> Search[tuple[str, ...]]:
    if not gone:
        return ()
    states = node.leave_out({holder.pod.uid for holder in gone})
    return (yield from probe.find_cards(states, request))


def _classify(holders: Sequence[ShareHolder]) -> list[list[ShareHolder]]:
    """Return groups of pods that have equal amounts of the same cards."""
    classes: dict[object, list[ShareHolder]] = {}
    for holder in holders:
        key = holder.pod.uid if holder.charges is None else holder.charges
        classes.setdefault(key, []).append(holder)
    return list(classes.values())


def _list_pairs(classes: Sequence[Sequence[ShareHolder]]) -> Iterator[list[ShareHolder]]:
    for one, other in combinations_with_replacement(classes, 2):
        if one is not other:
            yield [one[0], other[0]]
        elif len(one) > 1:
            yield [one[0], one[1]]


def _name(gone: Sequence[ShareHolder], taken: tuple[str, ...], *, proven: bool) -> Change:
    pods = tuple(sorted((holder.pod for holder in gone), key=str))
    return Change(ChangeKind.PODS_ENDED, pods=pods, taken=taken, size=(len(pods), _sum_up(gone)), proven=proven)


def _sum_up(holders: Sequence[ShareHolder]) -> int:
    return sum(holder.memory_bytes for holder in holders)


def _order(holder: ShareHolder) -> tuple[int, str]:
    return holder.memory_bytes, str(holder.pod)
