"""Exchange of process scan results between two containers of the agent's pod, through a shared folder.

The agent writes the device nodes of cards to the folder. `accelkit process-scan` writes the processes that have these
device nodes open. Only the container that runs this command may read all processes. It has no token and does not use
the network.
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
# A scan that is older than several scan intervals is not used.
_STALE_SECONDS: Final = 4 * SCAN_SECONDS
_CARDS: Final = "cards.json"
_SCAN: Final = "processes.json"


class Cards(msgspec.Struct, frozen=True):
    """The cards that the scan checks.

    Attributes:
        nodes: the device nodes that belong only to the card, by card ID.
        bdfs: the card IDs by PCI address.
    """

    nodes: Mapping[str, Collection[str]]
    bdfs: Mapping[str, str]


class Scan(msgspec.Struct, frozen=True):
    """The result of a scan.

    Attributes:
        at: the time in seconds since the machine started, which is the same in all containers.
        processes: the processes that have cards open.
        mps_daemons: the cards of each MPS control daemon, by the daemon's process ID; None for a daemon that serves all
            cards.
    """

    at: float
    processes: Processes
    mps_daemons: Mapping[int, str | None]


_cards = msgspec.json.Decoder(Cards)
_scan = msgspec.json.Decoder(Scan)


class PassedScan:
    """The agent's access to the scan results.

    Args:
        folder: the shared folder; None if there is no scan.
        clock: returns the time in seconds since the machine started.
    """

    def __init__(self, folder: Path | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._written: Cards | None = None

    def request(self, cards: Cards) -> None:
        """Write the cards that the scan must check.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._folder is not None and cards != self._written:
            _write(self._folder / _CARDS, cards)
        self._written = cards

    def read(self) -> Scan | None:
        """Return the most recent scan; None if it is missing, unreadable or stale."""
        if self._folder is None:
            return None
        try:
            scan = _scan.decode((self._folder / _SCAN).read_bytes())
        except (OSError, msgspec.MsgspecError):
            return None
        # The folder may still exist after a restart of the machine, which resets the clock.
        return scan if 0 <= self._clock() - scan.at <= _STALE_SECONDS else None

    def list_mps_daemons(self) -> Mapping[int, str | None]:
        """Return the MPS control daemons from the most recent scan; empty if there is no scan."""
        scan = self.read()
        return scan.mps_daemons if scan else {}


def pass_on(root: Path, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> bool:
    """Find the processes that use the cards in the agent's list, and write these processes to the shared folder.

    Args:
        root: the host's root folder.
        folder: the shared folder.
        clock: returns the time in seconds since the machine started.

    Returns:
        Whether the agent has written cards.

    Raises:
        DevicePluginError: processes cannot be listed, or the folder cannot be used.
    """
    try:
        cards = _cards.decode((folder / _CARDS).read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, msgspec.MsgspecError) as exc:
        raise DevicePluginError(f"cannot read the agent's cards: {exc}") from exc
    found = find_card_processes(root, cards.nodes, cards.bdfs)
    try:
        _write(folder / _SCAN, Scan(clock(), found, read_mps_daemons(root, list_pids(root))))
    except OSError as exc:
        raise DevicePluginError(f"cannot write the scan: {exc}") from exc
    return True


def _write(file: Path, value: msgspec.Struct) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(value))
    new.replace(file)
