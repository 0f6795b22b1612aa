"""Preparation of types for `msgspec.convert`, and reader of document versions."""

from __future__ import annotations

from typing import Any

import msgspec


def prepare(*types: Any) -> None:
    """Let msgspec analyse types while their module is imported.

    Otherwise, msgspec analyses a type when it is first used. If a second thread uses the type before the analysis is
    finished, the process crashes with SIGSEGV. A module-level `msgspec.json.Decoder` also prepares its type, but
    `msgspec.convert` has no equivalent.
    """
    for each in types:
        msgspec.json.Decoder(each)


class _Versioned(msgspec.Struct):
    version: int


_versioned = msgspec.json.Decoder(_Versioned)


def decode_version(document: str) -> int:
    """Return the version of a JSON document. Read it first, because a different version may have different fields.

    Raises:
        msgspec.MsgspecError: it has no version.
    """
    return _versioned.decode(document).version
