"""Texts that users write, where they end in a sentence of ours, a log or a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

MAX_QUOTED: Final = 200
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def clean(text: str, *, keep: str = "") -> str:
    """Return the text with what steers a terminal or turns its lines replaced, but for the characters to `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(each) in _INVISIBLE and each not in keep else each
        for each in text
    )


def shorten(text: str, length: int = MAX_QUOTED) -> str:
    """Return at most so many characters of the text, clean, with an ellipsis where some are left out."""
    return clean(text if len(text) <= length else f"{text[: length - 1]}…")


def count_cards(number: int) -> str:
    """Return how many cards, as `1 card` or `2 cards`."""
    return "1 card" if number == 1 else f"{number} cards"


def list_some(names: Iterable[str], most: int = 5) -> str:
    """Return the first names for a sentence, and how many more there are."""
    listed = list(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
