"""Changes that return unhealthy or cordoned cards to service."""

from __future__ import annotations

import msgspec

from accelkit.model.card import Health
from accelkit.model.request import PodRequest
from accelkit.placement.card_state import CardState
from accelkit.placement.changes.change import Change, ChangeKind
from accelkit.placement.changes.probe import Probe, Search
from accelkit.placement.changes.situation import Situation, Terms


def find_card_back(probe: Probe, node: Situation, request: PodRequest, _: Terms) -> Search[Change | None]:
    """Return the change that returns one card or, if this is not sufficient, all cards to service.

    Return None if the pod would not fit even with all cards.
    """
    states = node.states
    out = [place for place, state in enumerate(states) if not state.card.placeable]
    for chosen in [*((place,) for place in out), *([tuple(out)] if len(out) > 1 else [])]:
        changed = [_put_back(state) if place in chosen else state for place, state in enumerate(states)]
        if taken := (yield from probe.find_cards(changed, request)):
            cards = tuple(states[place].card.id for place in chosen)
            return Change(
                ChangeKind.CARD_BACK,
                cards=cards,
                taken=taken,
                size=(len(cards), 0),
                # Other sets of cards are not tried.
                proven=len(cards) <= 2,  # noqa: PLR2004 - with two cards, no other sets exist
            )
    return None


def _put_back(state: CardState) -> CardState:
    card = msgspec.structs.replace(state.card, health=Health.HEALTHY, cordoned=False)
    return msgspec.structs.replace(state, card=card)
