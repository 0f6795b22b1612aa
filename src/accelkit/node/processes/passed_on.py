"""Passes on between two containers of the agent's pod what one of them alone may see: which processes have cards open.

In a folder that both share, the agent says which device nodes are cards, and `accelkit process-scan`, which has the
right to look into all processes and neither token nor network of its own to use, says who has them open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from accelkit.errors import DevicePluginError
from accelkit.node.enforcement.mps import read_mps_daemons
from accelkit.node.processes.scan import Processes, find_card_processes, list_pids

SCAN_SECONDS: Final = 15.0
# Some scans late is too late to be believed.
_STALE_SECONDS: Final = 4 * SCAN_SECONDS
_CARDS: Final = "cards.json"
_SCAN: Final = "processes.json"


class Cards(msgspec.Struct, frozen=True):
    """What the scan looks for.

    Attributes:
        nodes: by card id, its own device nodes.
        bdfs: card ids by PCI address.
    """

    nodes: Mapping[str, Collection[str]]
    bdfs: Mapping[str, str]


class Scan(msgspec.Struct, frozen=True):
    """What it found.

    Attributes:
        at: seconds since the machine started, the same in all its containers.
        processes: those that have cards open.
        mps_daemons: cards that MPS control daemons were started for, by process id; None for all of them.
    """

    at: float
    processes: Processes
    mps_daemons: Mapping[int, str | None]


_cards = msgspec.json.Decoder(Cards)
_scan = msgspec.json.Decoder(Scan)


class PassedScan:
    """The agent's side.

    Args:
        folder: the shared folder; None where nobody looks.
        clock: seconds since the machine started.
    """

    def __init__(self, folder: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._asked: Cards | None = None

    def ask(self, cards: Cards) -> None:
        """Say what to look for.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._folder is not None and cards != self._asked:
            _write(self._folder / _CARDS, cards)
        self._asked = cards

    def read(self) -> Scan | None:
        """Return the last scan; None where there is none, it cannot be read, or it is old."""
        if self._folder is None:
            return None
        try:
            scan = _scan.decode((self._folder / _SCAN).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None
        # The folder may outlive a restart of the machine, and its clock starts anew.
        return scan if 0 <= self._clock() - scan.at <= _STALE_SECONDS else None

    def list_mps_daemons(self) -> Mapping[int, str | None]:
        """Return the MPS control daemons of the last scan; none where there is none."""
        scan = self.read()
        return scan.mps_daemons if scan else {}


def pass_on(root: Path, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> bool:
    """Look once, where the agent has said what for, and pass on what is seen.

    Args:
        root: the host's root folder.
        folder: the shared folder.
        clock: seconds since the machine started.

    Returns:
        Whether there was something to look for.

    Raises:
        DevicePluginError: processes cannot be seen, or the folder cannot be used.
    """
    try:
        cards = _cards.decode((folder / _CARDS).read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, msgspec.MsgspecError) as exc:
        raise DevicePluginError(f"what to look for cannot be read: {exc}") from exc
    found = find_card_processes(root, cards.nodes, cards.bdfs)
    try:
        _write(folder / _SCAN, Scan(clock(), found, read_mps_daemons(root, list_pids(root))))
    except OSError as exc:
        raise DevicePluginError(f"what was found cannot be passed on: {exc}") from exc
    return True


def _write(file: Path, value: msgspec.Struct) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(value))
    new.replace(file)
