"""Preparation of types for `msgspec.convert`."""

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
