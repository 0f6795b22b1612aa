"""Decoder for API server objects with fields that are nested too deeply for the JSON decoder.

A user who may write an object may also write its `metadata.managedFields`, in which the API server accepts 10,000
levels of JSON. The decoder's depth limit also applies to fields that it skips, so the whole page could not be decoded.
"""

from __future__ import annotations

import itertools
import re
from typing import Final, TypeVar

import msgspec

_T = TypeVar("_T")
# Maximum number of levels that are decoded. The fields that accelkit reads are at most 20 levels deep.
_LEVELS: Final = 100
# Consecutive levels of an object are one match, as in {"f:spec":{"f:containers":{, and so are consecutive closing
# brackets. Other strings are matched because they may contain brackets.
_BRACKET: Final = re.compile(rb"[\[{]")
_TOKENS: Final = re.compile(
    rb'(?P<begin>(?:\{"[^"\\{}\[\]]*+":|[\[{])++)|(?P<end>[\]}]++)|"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL
)


def decode(decoder: msgspec.json.Decoder[_T], text: bytes | bytearray) -> _T:
    """Return the decoded object, in which values that are nested too deeply are null.

    Raises:
        MsgspecError: the text is not valid JSON, or does not have the expected type.
        UnicodeDecodeError: the text contains invalid UTF-8.
        RecursionError: a field that the decoder returns as text is nested too deeply.
    """
    try:
        return decoder.decode(text)
    except RecursionError:
        return decoder.decode(_cut(text))


def _cut(text: bytes | bytearray) -> bytes:
    """Return the JSON text in which each value that exceeds the maximum number of levels is replaced with null."""
    kept: list[bytes | bytearray] = []
    depth = start = 0
    for token in _TOKENS.finditer(text):
        if token.lastgroup is None:
            continue
        before, length = depth, token.end() - token.start()
        if token.lastgroup == "end":
            depth -= length
            if depth <= _LEVELS < before:
                start = token.start() + before - _LEVELS
        else:
            found = token.group()
            depth += found.count(b"{") + found.count(b"[")
            if before <= _LEVELS < depth:
                # The first removed value begins at this bracket in the token.
                first = next(itertools.islice(_BRACKET.finditer(found), _LEVELS - before, None))
                kept += [text[start : token.start() + first.start()], b"null"]
    return b"".join([*kept, text[start:]])
