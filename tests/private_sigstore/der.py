"""DER (X.690) as far as the formats here need it."""

from __future__ import annotations

__all__ = [
    "INTEGER",
    "OCTET_STRING",
    "SEQUENCE",
    "SET",
    "UTF8_STRING",
    "context",
    "der",
    "integer",
    "object_identifier",
]

INTEGER, OCTET_STRING, OBJECT_IDENTIFIER, UTF8_STRING, SEQUENCE, SET = 0x02, 0x04, 0x06, 0x0C, 0x30, 0x31
_LONG_LENGTH = 0x80


def der(tag: int, *contents: bytes) -> bytes:
    """One value: its tag, its length, and its contents one after the other."""
    content = b"".join(contents)
    length = len(content)
    if length < _LONG_LENGTH:
        return bytes([tag, length]) + content
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, _LONG_LENGTH | len(size)]) + size + content


def context(number: int, *contents: bytes) -> bytes:
    """A constructed value with a tag of its context, such as `[0]`."""
    return der(0xA0 | number, *contents)


def integer(value: int) -> bytes:
    """A number that is not negative."""
    return der(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def object_identifier(dotted: str) -> bytes:
    """An identifier written with dots."""
    first, second, *rest = map(int, dotted.split("."))
    return der(OBJECT_IDENTIFIER, *map(_base_128, (first * 40 + second, *rest)))


def _base_128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))
