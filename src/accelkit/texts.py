"""Functions that sanitize and truncate user-provided text for messages, logs and terminals."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

MAX_QUOTED: Final = 200
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def clean(text: str, *, keep: str = "") -> str:
    """Replace control characters and characters that change the text direction, except those in `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(each) in _INVISIBLE and each not in keep else each
        for each in text
    )


def shorten(text: str, length: int = MAX_QUOTED) -> str:
    """Return the sanitized text. If it is longer than `length` characters, truncate it and add an ellipsis."""
    return clean(text if len(text) <= length else f"{text[: length - 1]}…")


def count_cards(number: int) -> str:
    """Return a number of cards as text: `1 card` or `2 cards`."""
    return "1 card" if number == 1 else f"{number} cards"


def list_some(names: Iterable[str], most: int = 5) -> str:
    """Return a phrase with the first names and the number of omitted names."""
    listed = list(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")
