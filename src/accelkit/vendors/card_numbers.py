"""Parser for the numbers that other systems use to identify cards. Only ASCII digits are accepted."""

from __future__ import annotations

import re
from typing import Final

# No card number has more than 18 digits, and 18 digits fit into a 64-bit integer.
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_PREFIX: Final = "card"


def parse_number(text: str) -> int | None:
    """Return the number in a string, or None if the string is not a number."""
    return int(text) if _NUMBER.fullmatch(text) else None


def parse_card_name(name: str) -> int | None:
    """Return the number in a name such as `card7`, or None for any other string."""
    return parse_number(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
