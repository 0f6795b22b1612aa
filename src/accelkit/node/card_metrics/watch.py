"""Reads the cards again and again, each in a thread of its own, so that a driver that hangs holds up nobody else.

A thread that waits in the kernel cannot be ended. So there is never more than one for a card, nobody waits for it, and
what it read last is not shown any more once it is old: a driver that hangs shows as cards without measures.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from accelkit.node.card_metrics.files import read_by_files
from accelkit.node.card_metrics.nvml import read_by_nvml
from accelkit.node.card_metrics.reading import CardReading
from accelkit.node.discovery import FoundCard
from accelkit.reporting import OnceReporter

log = logging.getLogger(__name__)

# Prometheus scrapes every 30 or 60 seconds mostly; a peak between two readings is nobody's.
_LOOK_SECONDS: Final = 15.0
_FIRST_SECONDS: Final = 1.0
# The last reading of a card that does not answer; so many scrapes of it lead nobody astray.
_OLD_SECONDS: Final = 60.0
_NVIDIA_DRIVER: Final = "nvidia"


@dataclass(frozen=True, slots=True)
class _Kept:
    reading: CardReading
    read_at: float


class CardWatch:
    """The latest readings of a node's cards.

    Args:
        read: reads one card; it may take any time.
        clock: seconds, never backwards.
    """

    def __init__(self, read: Callable[[FoundCard], CardReading], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._errors = OnceReporter(log)

    async def run(self, cards: Callable[[], Sequence[FoundCard]]) -> None:
        """Read all cards again and again; `cards` returns those that there are."""
        while True:
            found = cards()
            self.look(found)
            # Those of an agent that has just started are known in a moment.
            await asyncio.sleep(_LOOK_SECONDS if found else _FIRST_SECONDS)

    def look(self, cards: Sequence[FoundCard]) -> None:
        """Begin to read each card whose last reading has ended, and forget those that are gone."""
        ids = {each.card.id for each in cards}
        with self._lock:
            self._kept = {card: kept for card, kept in self._kept.items() if card in ids}
        self._threads = {card: thread for card, thread in self._threads.items() if thread.is_alive()}
        for each in cards:
            if each.card.id in self._threads:
                self._errors.report(each.card.id, f"card {each.card.id} does not answer; its metrics are left out")
                continue
            # A daemon: the agent ends without it.
            thread = threading.Thread(target=self._take, args=(each,), name=f"read {each.card.id}", daemon=True)
            self._threads[each.card.id] = thread
            thread.start()

    def list_current(self) -> Mapping[str, CardReading]:
        """Return the readings that are not old, by card."""
        oldest = self._clock() - _OLD_SECONDS
        with self._lock:
            return {card: kept.reading for card, kept in self._kept.items() if kept.read_at >= oldest}

    def _take(self, found: FoundCard) -> None:
        began = self._clock()
        try:
            reading = self._read(found)
        except Exception as exc:  # noqa: BLE001 - one card must not end the others' metrics
            self._errors.report(f"{found.card.id} {exc!r}", f"card {found.card.id} cannot be read", error=exc)
            return
        with self._lock:
            # What was asked long ago was answered at some time since.
            self._kept[found.card.id] = _Kept(reading, began)


def read_card(found: FoundCard, load_nvml: Callable[[], Any | None]) -> CardReading:
    """Return what a card does, by its vendor's library where we know it, else by the files of its driver.

    Args:
        found: the card.
        load_nvml: returns the module `pynvml`, or None where the library is not there.
    """
    if found.driver == _NVIDIA_DRIVER and found.card.bdf:
        nvml = load_nvml()
        return CardReading() if nvml is None else read_by_nvml(nvml, found.card.bdf)
    folder: Path | None = found.device
    return CardReading() if folder is None else read_by_files(folder, found.driver)
