"""Reads the numbers by which other systems name cards; whatever Unicode calls a digit, these are of ASCII."""

from __future__ import annotations

import re
from typing import Final

# More digits than any number of a card has, and few enough for any integer.
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_PREFIX: Final = "card"


def parse_number(text: str) -> int | None:
    """Return the number that a text is, None where it is none."""
    return int(text) if _NUMBER.fullmatch(text) else None


def parse_card_name(name: str) -> int | None:
    """Return the number of `card7`, None where it is no such name."""
    return parse_number(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
