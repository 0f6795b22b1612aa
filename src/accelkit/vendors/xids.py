"""Table of XIDs: the numbers that NVIDIA's driver uses to report card errors."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import ProfileError
from accelkit.yaml import load_yaml


class XidAction(StrEnum):
    """The action for an XID. CORDON and all subsequent members exclude the card from placement until it is repaired."""

    IGNORE = "ignore"
    WATCH = "watch"
    CORDON = "cordon"
    DRAIN_AND_RESET = "drain-and-reset"
    REPLACE = "replace"

    @property
    def harms(self) -> bool:
        """Whether the action excludes the card from placement, so that it accepts no new shares."""
        return self not in {XidAction.IGNORE, XidAction.WATCH}


class Xid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """XIDs with the same meaning and action. `meaning` is a phrase that completes a sentence."""

    numbers: tuple[int, ...]
    action: XidAction
    meaning: str


prepare(Xid)


# Newer drivers may report unknown XIDs, most of which are informational. A broken card also reports known XIDs.
_UNKNOWN: Final = Xid((), XidAction.WATCH, "not in accelkit's table")


def find_xid(number: int) -> Xid:
    """Return the entry for an XID. The entry for an unknown XID does not exclude the card from placement."""
    return _load_xids().get(number, _UNKNOWN)


def parse_xids(text: str) -> Mapping[int, Xid]:
    """Parse the table of XIDs from YAML.

    Raises:
        ProfileError: the table is invalid.
    """
    try:
        rows = msgspec.convert(load_yaml(text), tuple[Xid, ...])
    except msgspec.ValidationError as exc:
        raise ProfileError(f"the table of XIDs is invalid: {exc}") from exc
    found = {number: row for row in rows for number in row.numbers}
    if len(found) != sum(len(row.numbers) for row in rows):
        raise ProfileError("the table of XIDs is invalid: it contains duplicate numbers")
    return found


@cache
def _load_xids() -> Mapping[int, Xid]:
    return parse_xids((resources.files("accelkit.vendors") / "data" / "xids.yaml").read_text())
