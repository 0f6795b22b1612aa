"""State that persists across agent restarts: the folders that each pod may use, and the policies that folders satisfy.

A user with write access to the store can change this file. The agent trusts it in the same way as cache records.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

_FILE: Final = ".agent.json"
_MODE: Final = 0o600
_MAX_BYTES: Final = 32 << 20
_VERSION: Final = 1
# Maximum number of records per folder, because users can create any number of caches with the same digest.
_MAX_POLICIES: Final = 256

Uses = Mapping[str, Mapping[str, frozenset[str]]]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    uses: dict[str, dict[str, list[str]]] = {}
    satisfied: dict[str, dict[str, float]] = {}
    version: int = _VERSION


_document = msgspec.json.Decoder(_Document)


@dataclass
class AgentState:
    """State that persists across agent restarts.

    Attributes:
        uses: names of folders that the containers of a pod may use, keyed by pod UID and cache key.
        satisfied: times at which a folder was found to satisfy policies, in seconds since 1970, keyed by folder and
            policies.
        lost: whether no valid ledger file was found. In this case, any pod may use any folder.
    """

    uses: dict[str, dict[str, frozenset[str]]] = field(default_factory=dict)
    satisfied: dict[str, dict[str, float]] = field(default_factory=dict)
    lost: bool = False

    def note_satisfied(self, folder: str, policies: str, at: float) -> None:
        """Record that a folder satisfies these policies. Delete the oldest records if there are too many."""
        known = self.satisfied.setdefault(folder, {})
        known[policies] = at
        while len(known) > _MAX_POLICIES:
            del known[min(known, key=known.__getitem__)]

    def discard(self, folders: Iterable[str]) -> None:
        """Delete the records for all folders except the specified folders."""
        kept = frozenset(folders)
        self.satisfied = {folder: each for folder, each in self.satisfied.items() if folder in kept}

    def take_uses(self, uses: Uses) -> bool:
        """Replace the recorded uses, and return whether they changed."""
        taken = {uid: dict(by_key) for uid, by_key in uses.items()}
        changed = taken != self.uses
        self.uses = taken
        return changed


def read_ledger(root: Path) -> AgentState:
    """Return the ledger of a store. If no valid ledger exists, return an empty ledger with `lost` set."""
    try:
        with (root / _FILE).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError:
        return AgentState(lost=True)
    try:
        document = _document.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return AgentState(lost=True)
    if document.version != _VERSION:
        return AgentState(lost=True)
    uses = {uid: {key: frozenset(folders) for key, folders in by_key.items()} for uid, by_key in document.uses.items()}
    return AgentState(uses, document.satisfied)


def write_ledger(root: Path, ledger: AgentState) -> None:
    """Write the ledger of a store atomically.

    Raises:
        OSError: the disk is full or not writable.
    """
    uses = {
        uid: {key: sorted(folders) for key, folders in by_key.items()} for uid, by_key in sorted(ledger.uses.items())
    }
    document = _Document(uses, ledger.satisfied)
    new = root / f"{_FILE}.new"
    with new.open("wb") as file:
        os.fchmod(file.fileno(), _MODE)
        file.write(msgspec.json.encode(document))
        file.flush()
        os.fsync(file.fileno())
    new.rename(root / _FILE)
