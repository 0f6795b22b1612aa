"""Snapshots of nodes, which are the input to the search for changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter

import msgspec

from accelkit.ledger.holding import Holding, NodeEntry
from accelkit.ledger.verdicts import describe_state
from accelkit.model.request import PodRequest
from accelkit.placement.changes.situation import PlacedCharges, ShareHolder, Situation
from accelkit.placement.changes.victims import Candidate
from accelkit.placement.charges import Charge
from accelkit.vendors.pod_reading import CardPod


def take_situation(entry: NodeEntry, request: PodRequest) -> Situation:
    """Return a snapshot of a node's cards and the pods that use the cards.

    If `describe_likeness` returns equal results for two nodes, the pods at the same position in their snapshots have
    equal holdings.
    """
    kept = entry.copy_without(())
    places = {card.id: place for place, card in enumerate(kept.list_cards())}
    holders = [holder for held in kept.holdings.values() if (holder := _read_holder(held, places)).charges]
    holders.sort(key=lambda holder: (_rank(holder.charges), str(holder.pod)))
    unassigned = sorted(kept.unassigned.values(), key=lambda pod: str(pod.pod))
    holders += [ShareHolder(pod.pod, None, pod.memory_bytes * len(places)) for pod in unassigned]
    return Situation(
        kept.list_states_for(request), tuple(holders), lambda uids: kept.copy_without(uids).list_states_for(request)
    )


def list_candidates(
    situation: Situation, bound: Iterable[CardPod], may_go: Callable[[CardPod], bool]
) -> list[Candidate]:
    """Return the pods of a node that may be evicted.

    The result excludes unreadable pods, pods that are already terminating, and static pods, which cannot be evicted.

    Args:
        situation: the snapshot of the node.
        bound: the readable pods of the node.
        may_go: returns whether another pod may be evicted.
    """
    priorities = {each.ref.uid: each.priority for each in bound if not (each.static or each.ending) and may_go(each)}
    return [
        Candidate(holder, priorities[holder.pod.uid]) for holder in situation.holders if holder.pod.uid in priorities
    ]


def describe_likeness(entry: NodeEntry, request: PodRequest) -> bytes:
    """Return a digest that is equal for nodes on which a pod would fit after the same changes.

    Such nodes differ only in the identities of their cards and pods.
    """
    # The digest does not contain the labels to which selectors apply.
    if entry.unassigned or entry.inventory is None or entry.inventory.uncounted or request.selectors:
        return entry.name.encode()
    places = {card.id: place for place, card in enumerate(entry.list_cards())}
    charges = sorted(_rank(_place(held, places)) for held in entry.holdings.values())
    # A digest is one small object. Without a digest, the key would consist of many objects for each of thousands of
    # nodes.
    return hashlib.blake2b(msgspec.msgpack.encode((describe_state(entry, request), charges))).digest()


def _read_holder(held: Holding, places: Mapping[str, int]) -> ShareHolder:
    placed = _place(held, places)
    return ShareHolder(held.pod, placed, sum(charge.memory_bytes for _, charge in placed))


def _place(held: Holding, places: Mapping[str, int]) -> tuple[tuple[int, Charge], ...]:
    placed = ((places[card], charge) for card, charge in held.charges.items() if card in places)
    return tuple(sorted(placed, key=itemgetter(0)))


def _rank(charges: PlacedCharges) -> tuple[tuple[object, ...], ...]:
    return tuple(
        (place, charge.memory_bytes, charge.compute, charge.whole, charge.amounts) for place, charge in charges or ()
    )
