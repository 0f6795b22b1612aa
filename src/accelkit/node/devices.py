"""Device IDs: the ID of the card for a whole card, and `<alias>::<number>` for one unit of its memory.

A kubelet accepts the devices of a resource in one message of at most 4 MiB. Therefore, the ID of a memory unit has only
about ten characters: five for the alias of the card, and the number of the unit in base 36. The alias depends only on
the ID of the card, and not on the other cards of the node. If two cards of a node have the same alias, their full IDs
are used instead.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card

_SEPARATOR: Final = "::"
_ALIAS_LENGTH: Final = 5
# Prefix of a full ID that replaces an alias. No alias begins with it.
_FULL: Final = "="
# The base of the unit numbers.
BASE: Final = 36
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_NUMBER: Final = re.compile("0|[1-9a-z][0-9a-z]{0,11}")


class DeviceIds:
    """The device IDs of one node's cards.

    Args:
        cards: the IDs of all cards of the node.
    """

    def __init__(self, cards: Iterable[str]) -> None:
        self._cards = frozenset(cards)
        aliases = Counter(map(_build_alias, self._cards))
        self._prefixes = {
            card: alias if aliases[alias := _build_alias(card)] == 1 else f"{_FULL}{card}" for card in self._cards
        }
        self._by_prefix = {prefix: card for card, prefix in self._prefixes.items()}

    def build_memory_id(self, card: str, number: int) -> str:
        """Return the ID of one unit of a card's memory."""
        return f"{self._prefixes[card]}{_SEPARATOR}{_format_number(number)}"

    def list_memory_ids(self, card: Card, unit_bytes: int) -> list[str]:
        """Return the IDs of a card's memory units, one for each whole unit; empty if its memory is unknown."""
        prefix = f"{self._prefixes[card.id]}{_SEPARATOR}"
        return [prefix + _format_number(number) for number in range(card.capacity_bytes // unit_bytes)]

    def owns(self, device_id: str, *, whole: bool) -> bool:
        """Return whether a device ID can belong to one of these cards."""
        if whole:
            return device_id in self._cards
        prefix, _, number = device_id.partition(_SEPARATOR)
        return prefix in self._by_prefix and _NUMBER.fullmatch(number) is not None

    def find_card(self, device_id: str) -> str:
        """Return the ID of the card to which a device ID belongs, or the device ID itself if no card matches."""
        prefix, separator, _ = device_id.partition(_SEPARATOR)
        return self._by_prefix.get(prefix, device_id) if separator else device_id

    def count_by_card(self, device_ids: Iterable[str]) -> Counter[str]:
        """Return the number of device IDs per card."""
        return Counter(map(self.find_card, device_ids))

    def pick(self, available: Sequence[str], taken: Sequence[str], requested: Counter[str]) -> list[str]:
        """Return as many IDs for each card as `requested` specifies, beginning with the IDs in `taken`.

        If a card does not have enough available IDs, return fewer IDs, because the kubelet decides which IDs are
        available.

        Raises:
            DevicePluginError: the IDs in `taken` belong to other cards, or their number exceeds the request.
        """
        chosen, counts = list(taken), self.count_by_card(taken)
        if counts - requested:
            raise DevicePluginError("the devices that must be included do not belong to the assigned cards")
        free: dict[str, list[str]] = {card: [] for card in requested - counts}
        for device_id in set(available) - set(taken):
            if (card := self.find_card(device_id)) in free:
                free[card].append(device_id)
        for card, device_ids in sorted(free.items()):
            chosen += sorted(device_ids, key=_read_number)[: requested[card] - counts[card]]
        return chosen


def _format_number(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, BASE)
        digits = _DIGITS[digit] + digits
        if not number:
            return digits


@lru_cache(maxsize=256)
def _build_alias(card: str) -> str:
    digest = hashlib.sha256(card.encode(errors="surrogatepass")).digest()
    return base64.b32encode(digest)[:_ALIAS_LENGTH].decode().lower()


def _read_number(device_id: str) -> int:
    number = device_id.partition(_SEPARATOR)[2]
    return int(number, BASE) if _NUMBER.fullmatch(number) else 0
