"""Factories of requests for cards, and of inventories that have them."""

from __future__ import annotations

from typing import Any

from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.request import ContainerRequest, Kind, PodRequest


def build_request(memory: int = 0, compute: int = 0, *, cards: int = 1, **more: Any) -> PodRequest:
    """Return the request of a pod with container `c`, which asks for whole cards unless it asks for a share."""
    more.setdefault("whole", not (memory or compute))
    return PodRequest((ContainerRequest("c", Kind.APP, cards, memory, compute, **more),))


def build_inventory(*cards: str, memory: int | None = 16, unit_bytes: int = 1, **more: Any) -> Inventory:
    """Return an inventory of cards alike with these names."""
    return Inventory(unit_bytes, tuple(Card(card, "v", "m", memory, **more) for card in cards))
