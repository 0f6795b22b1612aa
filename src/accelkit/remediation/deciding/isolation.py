"""Words in a node's annotations and taints of a node: added, found, and taken away so that what was there is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from accelkit.model.keys import UNHEALTHY_TAINT

TAINT_EFFECT: Final = "NoSchedule"
CONDITION: Final = "AcceleratorHealthy"
# By which a condition of ours is told from one of the same type that somebody else writes.
SIGNED: Final = "accelkit: "


class SeenTaint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A taint, with all of its fields: the list is written as a whole."""

    key: str
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class SeenCondition(msgspec.Struct, frozen=True, omit_defaults=True):
    """A condition of a node."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


def has_word(text: str | None, word: str) -> bool:
    """Return whether an annotation of words with commas between them has this one."""
    return word in (each.strip() for each in (text or "").split(","))


def add_word(text: str | None, word: str) -> str:
    """Return the annotation with one more word at its end."""
    return f"{text},{word}" if text else word


def remove_word(text: str | None, word: str, before: str | None) -> str | None:
    """Return the annotation without its last such word; None where no word is left, or what was `before`, if empty."""
    words = (text or "").split(",")
    places = [place for place, each in enumerate(words) if each.strip() == word]
    if not places:
        return text
    del words[places[-1]]
    if words:
        return ",".join(words)
    return "" if before == "" else None


def find_taint(taints: Sequence[SeenTaint]) -> SeenTaint | None:
    """Return the taint of failed cards, whoever put it there."""
    return next((each for each in taints if (each.key, each.effect) == (UNHEALTHY_TAINT, TAINT_EFFECT)), None)


def remove_taint(taints: Sequence[SeenTaint], value: str) -> tuple[SeenTaint, ...]:
    """Return the taints without ours; one of another value is somebody else's."""
    return tuple(
        each for each in taints if (each.key, each.effect, each.value) != (UNHEALTHY_TAINT, TAINT_EFFECT, value)
    )


def find_condition(conditions: Sequence[SeenCondition]) -> SeenCondition | None:
    """Return the condition of cards, whoever wrote it."""
    return next((each for each in conditions if each.type == CONDITION), None)


def is_ours(condition: SeenCondition | None) -> bool:
    """Return whether we wrote a condition."""
    return condition is not None and condition.message.startswith(SIGNED)
