"""Reader of a file that lists cards, such as the simulated cards in the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from accelkit.errors import DevicePluginError
from accelkit.model.card import TARGET_PATTERN, Card, Health
from accelkit.node.discovery.found_card import FoundCard
from accelkit.vendors.profiles import FileDiscovery, Profile


class _ListedCard(msgspec.Struct):
    id: str
    model: str
    memory_bytes: int
    index: int
    numa: int | None = None
    health: Health = Health.HEALTHY
    target: Annotated[str, msgspec.Meta(pattern=TARGET_PATTERN)] = ""


class _ListedCards(msgspec.Struct):
    cards: list[_ListedCard]


_listed_cards = msgspec.json.Decoder(_ListedCards)


def find_listed(root: Path, profile: Profile, discovery: FileDiscovery) -> list[FoundCard]:
    """Return the cards in the profile's file; empty if the file does not exist.

    Raises:
        DevicePluginError: the file exists, but cannot be read.
    """
    path = root / discovery.path
    try:
        listed = _listed_cards.decode(path.read_bytes()).cards
    except FileNotFoundError:
        return []
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise DevicePluginError(f"cannot read the list of cards {path}: {exc}") from exc
    return [
        FoundCard(
            Card(
                card.id,
                profile.name,
                card.model,
                card.memory_bytes,
                numa=card.numa,
                health=card.health,
                index=card.index,
                minor=card.index,
                memory_source="admin",
                target=card.target,
            ),
            card.index,
            card.index,
            profile,
            uuid=card.id,
        )
        for card in listed
    ]
