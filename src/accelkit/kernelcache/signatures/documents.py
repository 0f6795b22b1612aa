"""Strict JSON, which every reader reads alike: what is signed must not mean one thing here and another elsewhere."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

import msgspec

from accelkit.kernelcache.signatures.findings import RejectedError, RejectionReason

_T = TypeVar("_T")

JSON_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])


def read_json(
    content: bytes, decoder: msgspec.json.Decoder[_T], what: str, reason: RejectionReason = RejectionReason.UNREADABLE
) -> _T:
    """Read a document strictly: UTF-8, no field of an object twice, no numbers that JSON does not have.

    Args:
        content: the bytes.
        decoder: of the type to read.
        what: the document's name, for the message.
        reason: why it does not count where it cannot be read.

    Raises:
        RejectedError: it cannot be read, or two readers could differ over it.
    """
    try:
        # msgspec takes the last of two equal fields without a word; the standard library lets us look.
        json.loads(content.decode(), object_pairs_hook=_require_unique, parse_constant=_refuse_constant)
        return decoder.decode(content)
    except (ValueError, msgspec.DecodeError, RecursionError) as exc:
        raise RejectedError(reason, f"{what} cannot be read: {exc}") from exc


def _require_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field is given twice")
    return fields


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")
