"""Preparation of types for `msgspec.convert`, and versions of documents."""

from __future__ import annotations

from typing import Any

import msgspec


def prepare(*types: Any) -> None:
    """Let msgspec analyse types while their module is imported.

    Otherwise msgspec analyses a type at its first use. If a second thread uses the type before that is finished, the
    process ends with SIGSEGV. A `msgspec.json.Decoder` of the module prepares its type as well; `msgspec.convert` has
    no such form.
    """
    for each in types:
        msgspec.json.Decoder(each)


class _Versioned(msgspec.Struct):
    version: int


_versioned = msgspec.json.Decoder(_Versioned)


def decode_version(document: str) -> int:
    """Return the version of a JSON document, which is read first because another version may have other fields.

    Raises:
        msgspec.MsgspecError: it has no version.
    """
    return _versioned.decode(document).version
