"""Draws values that nobody sends by mistake: texts, amounts and JSON, as users can write them into their objects."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any, TypeVar

Json = Any
T = TypeVar("T")

GIB = 2**30
NUMBERS = (
    *("²", "٣", "१", "1" * 5000, "9" * 19, "-1", "+1", "1_0", " 1", "1\n", "0x1", "1e3", "", "NaN", "Infinity", "-0"),
    *("18446744073709551616", "00", "1.0", "\u200b1", "①", "\uff11", "true", "None", "-", "1" * 18),
)
TEXTS = (
    *("", " ", "\x00", "\x1b[2J\x1b]0;owned\x07", "a\nb", "\u202eevil", "💣" * 20, "../../etc/passwd", "%s%n{card}"),
    *("{0.__class__}", "'; DROP TABLE pods;--", "\ufeff", "|" * 500, "," * 500, "card" * 50, "null", "\x7f", "İ", "ß"),
)
DOCUMENTS = (
    *("{", "[]", "null", "0", '""', '{"a":', "NaN", "[1e999]", '{"a":1e400}', "{}{}", '{"a":1,"a":2}', "\ufeff{}"),
    *("[" * 500, '{"a":' * 500 + "1" + "}" * 500, "[" * 500 + "]" * 500, "-" * 9, '"\\ud800"', '{"\\u0000":{}}'),
)
LEAVES: Sequence[Json] = (
    *(None, True, False, 0, 1, -1, 1.5, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 1e308),
    *("", "1", "²", "\x00", [], {}, [[]], {"": None}, ["a"], float("nan"), float("inf"), -0.0),
)
ZEROS: Sequence[Json] = (0, "0", "0.0", "0Gi", "-0", "0m", "0e0", "+0", 0.0, "00")
QUANTITIES: Sequence[Json] = (
    *("4", 4, 4.0, "4.0", "1e1", "1E1", "+8", "1k", "1Ki", "4Gi", "0.5", "500m", "1Ei", "8E", "9223372036854775807"),
    *("9223372036854775808", "-1", -1, 2**63, 10**30, 1e308, "9" * 30, "9" * 5000, "1e999", "1e-999", "²", "٣", "१"),
    *("", " 1", "1 ", "0x10", "NaN", "Infinity", ".", "..", "1..2", "+", "1Q", "1KiB", "\x00", "1" * 40 + "Ei", "1_0"),
)


def draw_values(rng: random.Random) -> Values:
    """Return values of a round: in most rounds everything is hostile, in some there is room for what is not."""
    return Values(rng, rng.choice((1.0, 1.0, 0.3, 0.05)))


class Values:
    """Draws values; all that is drawn follows from the seed of `rng`.

    Args:
        rng: draws numbers.
        hostility: the share of what could be hostile that is, 0 to 1.
    """

    def __init__(self, rng: random.Random, hostility: float = 1.0) -> None:
        self.rng = rng
        self._hostility = hostility

    def chance(self, share: float) -> bool:
        """Return True in this share of all calls."""
        return self.rng.random() < share

    def hostile(self, share: float) -> bool:
        """Return True in this share of all calls where everything is hostile, else less often."""
        return self.rng.random() < share * self._hostility

    def one(self, choices: Sequence[T]) -> T:
        """Return one of them."""
        return choices[int(self.rng.random() * len(choices))]

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        """Return up to `most` of them, repetitions included."""
        return [self.one(choices) for _ in range(int(self.rng.random() * (most + 1)))]

    def number_text(self) -> str:
        """Return what stands where a card's number is expected."""
        return str(int(self.rng.random() * 9)) if self.chance(0.7) else self.one(NUMBERS)

    def text(self) -> str:
        """Return any text, now and then one of 256 KiB."""
        if self.chance(0.002):
            return self.one(("x", "1", "[", "é", '{"a":', "card1,", "\x00", "0.")) * (2**18 // 8)
        return self.one((self.one(TEXTS), self.one(NUMBERS), self.one(DOCUMENTS)))

    def quantity(self) -> Json:
        """Return a limit: mostly a small whole number."""
        if not self.hostile(0.15):
            return self.one((str(1 + int(self.rng.random() * 16)), 1 + int(self.rng.random() * 16)))
        return self.one(ZEROS) if self.chance(0.3) else self.one(QUANTITIES)

    def document(self, honest: Json) -> str:
        """Return JSON that is as it should be, or spoiled in one place, or no such document at all."""
        if self.hostile(0.1):
            return self.text()
        return json.dumps(self.spoil(honest) if self.hostile(0.5) else honest, ensure_ascii=self.chance(0.5))

    def spoil(self, document: Json) -> Json:
        """Return the document with one of its parts replaced, left out, or one added."""
        if isinstance(document, dict) and document and self.chance(0.85):
            key = self.one(list(document))
            if self.chance(0.1):
                return {k: v for k, v in document.items() if k != key}
            if self.chance(0.1):
                return {**document, self.one(TEXTS): document[key]}
            return {**document, key: self.spoil(document[key])}
        if isinstance(document, list) and document and self.chance(0.85):
            place = int(self.rng.random() * len(document))
            if self.chance(0.2):
                return [*document, document[place]]
            return [*document[:place], self.spoil(document[place]), *document[place + 1 :]]
        return self.one(LEAVES) if self.chance(0.9) else self.text()

    def damage(self, text: bytes) -> bytes:
        """Return a text of a connection with a few bytes put in or the rest cut off."""
        place = int(self.rng.random() * len(text))
        wedge = self.one((b"", b"\\ud800", b"\xff", b"\xed\xa0\x80", b"\x00", b'"', b"[" * 3000, b"9" * 5000))
        return text[:place] + wedge + (b"" if self.chance(0.3) else text[place:])
