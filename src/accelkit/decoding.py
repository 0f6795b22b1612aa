"""Functions that prepare types for `msgspec.convert`, and that read the version of a document."""

from __future__ import annotations

from typing import Any

import msgspec


def prepare(*types: Any) -> None:
    """Make msgspec analyse types when their module is imported.

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
    """Return the version of a JSON document. Callers check it before they decode the fields, which depend on it.

    Raises:
        msgspec.MsgspecError: the document has no version.
    """
    return _versioned.decode(document).version
