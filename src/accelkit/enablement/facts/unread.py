"""Data that could not be read, with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unread:
    """Data that the API server did not return; `why` is the error as a sentence."""

    why: str
