"""What could not be read, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that the API server did not give; `why` is its sentence."""

    why: str
