"""Strict JSON parser, which ensures that a signed document has the same meaning for every parser."""

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
    """Decode a document. It must be UTF-8, without repeated fields in an object, and with only standard JSON numbers.

    Args:
        content: the bytes of the document.
        decoder: the decoder of the expected type.
        what: the name of the document, for messages.
        reason: the reason for the rejection if the document cannot be read.

    Raises:
        RejectedError: the document cannot be read or is ambiguous.
    """
    try:
        # If a field is repeated, msgspec silently uses the last value. The standard library can detect repeated fields.
        json.loads(content.decode(), object_pairs_hook=_require_unique, parse_constant=_refuse_constant)
        return decoder.decode(content)
    except (ValueError, msgspec.DecodeError, RecursionError) as exc:
        raise RejectedError(reason, f"{what} cannot be read: {exc}") from exc


def _require_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field is repeated")
    return fields


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number in JSON")
