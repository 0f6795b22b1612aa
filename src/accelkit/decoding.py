"""Functions that prepare types for `msgspec.convert` and read the version of a document."""

from __future__ import annotations

from typing import Any

import msgspec


def prepare(*types: Any) -> None:
    """Cause msgspec to analyze types when their module is imported.

    Otherwise, msgspec analyzes a type when the type is first used. If a second thread uses the type before this
    analysis is finished, the process crashes with SIGSEGV. A `msgspec.json.Decoder` in a module also prepares its type,
    but there is no equivalent for `msgspec.convert`.
    """
    for each in types:
        msgspec.json.Decoder(each)


class _Versioned(msgspec.Struct):
    version: int


_versioned = msgspec.json.Decoder(_Versioned)


def decode_version(document: str) -> int:
    """Return the version of a JSON document. Callers check it before they decode other fields, which depend on it.

    Raises:
        msgspec.MsgspecError: the document does not contain a version.
    """
    return _versioned.decode(document).version
