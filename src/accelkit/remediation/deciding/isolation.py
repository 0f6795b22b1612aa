"""Functions that add, find and remove taints of a node and words in its annotations, without changing other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.keys import UNHEALTHY_TAINT

TAINT_EFFECT: Final = "NoSchedule"
CONDITION: Final = "AcceleratorHealthy"
# The prefix of the message in accelkit's condition. It is missing if another controller wrote a condition of this type.
SIGNED: Final = "accelkit: "


class Taint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A taint with all fields, because a write replaces the complete list of taints."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node condition."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


def has_word(text: str | None, word: str) -> bool:
    """Return whether a comma-separated annotation contains a word."""
    return word in (each.strip() for each in (text or "").split(","))


def add_word(text: str | None, word: str) -> str:
    """Return the annotation with the word appended."""
    return f"{text},{word}" if text else word


def remove_word(text: str | None, word: str, before: str | None) -> str | None:
    """Return the text without the last occurrence of the word; if no word remains, None, or "" if `before` is ""."""
    words = (text or "").split(",")
    places = [place for place, each in enumerate(words) if each.strip() == word]
    if not places:
        return text
    del words[places[-1]]
    if words:
        return ",".join(words)
    return "" if before == "" else None


def find_taint(taints: Sequence[Taint]) -> Taint | None:
    """Return the taint for failed cards, regardless of the client that added it."""
    return next((each for each in taints if (each.key, each.effect) == (UNHEALTHY_TAINT, TAINT_EFFECT)), None)


def remove_taint(taints: Sequence[Taint], value: str) -> tuple[Taint, ...]:
    """Return the taints without accelkit's taint. A taint with a different value belongs to another owner."""
    return tuple(
        each for each in taints if (each.key, each.effect, each.value) != (UNHEALTHY_TAINT, TAINT_EFFECT, value)
    )


def find_condition(conditions: Sequence[NodeCondition]) -> NodeCondition | None:
    """Return the condition for failed cards, regardless of the controller that wrote it."""
    return next((each for each in conditions if each.type == CONDITION), None)


def is_ours(condition: NodeCondition | None) -> bool:
    """Return whether accelkit has written a condition."""
    return condition is not None and condition.message.startswith(SIGNED)
