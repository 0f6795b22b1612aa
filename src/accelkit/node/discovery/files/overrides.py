"""Reader of the administrator's overrides for cards, from the file `etc/accelkit/cards.yaml` on the host.

    cards:
      "0000:3b:00.0": {memory: 48GiB, reserved: 1GiB}
      "1e36:c042": {memory: 144GiB}

The key of an entry is the ID of a card, its PCI address, or the PCI IDs of its model, in this order of precedence.
Overrides take precedence over all other sources. An invalid entry is logged and ignored. An invalid entry never removes
a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from ruamel.yaml.error import YAMLError

from accelkit.decoding import prepare
from accelkit.errors import QuantityError
from accelkit.model.units import parse_size
from accelkit.yaml import load_yaml

OVERRIDES_FILE = "etc/accelkit/cards.yaml"


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    memory: str | int | None = None
    reserved: str | int | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    cards: dict[str, Any]


prepare(_File, _Entry)


@dataclass(frozen=True, slots=True)
class Override:
    """The overridden amounts of a card in bytes; None for an amount that is not overridden."""

    memory_bytes: int | None = None
    reserved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Overrides:
    """The content of the overrides file, and the problems in it as sentences."""

    cards: Mapping[str, Override] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def find_override(self, *names: str) -> Override:
        """Return the override for the first of these names that occurs in the file."""
        return next((self.cards[name] for name in names if name in self.cards), Override())


def read_overrides(root: Path) -> Overrides:
    """Return the overrides in the file; empty if the file does not exist."""
    path = root / OVERRIDES_FILE
    try:
        document = load_yaml(path.read_text())
        entries = msgspec.convert(document, _File).cards
    except FileNotFoundError:
        return Overrides()
    except (OSError, UnicodeDecodeError, YAMLError, msgspec.ValidationError, RecursionError) as exc:
        return Overrides(problems=(f"cannot use {path}: {exc}. Its overrides are ignored.",))
    cards: dict[str, Override] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        try:
            cards[name.lower() if _is_address(name) else name] = _parse_override(msgspec.convert(entry, _Entry))
        except (msgspec.ValidationError, QuantityError) as exc:
            problems.append(f"cannot use the entry {name} in {path}: {exc}. The entry is ignored.")
    return Overrides(cards, tuple(problems))


def _parse_override(entry: _Entry) -> Override:
    memory = None if entry.memory is None else parse_size(str(entry.memory))
    # A reserved amount of 0 is valid, but `parse_size` requires at least 1.
    reserved = None if entry.reserved is None else int(entry.reserved != 0 and parse_size(str(entry.reserved)))
    if memory is not None and reserved is not None and reserved > memory:
        raise QuantityError("reserved is larger than memory")
    return Override(memory, reserved)


def _is_address(name: str) -> bool:
    return set(name) <= set("0123456789abcdefABCDEF:.")
