"""Periodic reading of the cards, with one thread per card so that an unresponsive driver does not delay other cards.

A thread that waits in the kernel cannot be stopped. Therefore, each card has at most one thread, and other code does
not wait for this thread. A stale reading is not reported, so the cards of an unresponsive driver have no measures.
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

# Prometheus usually scrapes every 30 or 60 seconds. Peaks between two readings are not recorded.
_INTERVAL_SECONDS: Final = 15.0
_FIRST_SECONDS: Final = 1.0
# The age at which the last reading of an unresponsive card is no longer reported.
_STALE_SECONDS: Final = 60.0
_NVIDIA_DRIVER: Final = "nvidia"


@dataclass(frozen=True, slots=True)
class _TimedReading:
    reading: CardReading
    read_at: float


class CardWatch:
    """The most recent readings of a node's cards.

    Args:
        read: reads one card. This call may block indefinitely.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, read: Callable[[FoundCard], CardReading], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._readings: dict[str, _TimedReading] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._errors = OnceReporter(log)

    async def run(self, cards: Callable[[], Sequence[FoundCard]]) -> None:
        """Read all cards periodically. `cards` returns the current cards."""
        while True:
            found = cards()
            self.start_reads(found)
            # An agent that has just started discovers its cards soon, so the first wait is shorter.
            await asyncio.sleep(_INTERVAL_SECONDS if found else _FIRST_SECONDS)

    def start_reads(self, cards: Sequence[FoundCard]) -> None:
        """Start to read each card whose previous read has finished, and remove cards that no longer exist."""
        ids = {each.card.id for each in cards}
        with self._lock:
            self._readings = {card: timed for card, timed in self._readings.items() if card in ids}
        self._threads = {card: thread for card, thread in self._threads.items() if thread.is_alive()}
        for each in cards:
            if each.card.id in self._threads:
                self._errors.report(each.card.id, f"card {each.card.id} does not respond; its metrics are omitted")
                continue
            # A daemon thread does not prevent the agent from exiting.
            thread = threading.Thread(target=self._read_one, args=(each,), name=f"read {each.card.id}", daemon=True)
            self._threads[each.card.id] = thread
            thread.start()

    def list_current(self) -> Mapping[str, CardReading]:
        """Return the readings that are not stale, by card."""
        oldest = self._clock() - _STALE_SECONDS
        with self._lock:
            return {card: timed.reading for card, timed in self._readings.items() if timed.read_at >= oldest}

    def _read_one(self, found: FoundCard) -> None:
        started_at = self._clock()
        try:
            reading = self._read(found)
        except Exception as exc:  # noqa: BLE001 - one card must not affect the others' metrics
            self._errors.report(f"{found.card.id} {exc!r}", f"cannot read card {found.card.id}", error=exc)
            return
        with self._lock:
            # The time of a reading is the start of the read, because the values may be that old.
            self._readings[found.card.id] = _TimedReading(reading, started_at)


def read_card(found: FoundCard, load_nvml: Callable[[], Any | None]) -> CardReading:
    """Return the measures of a card, from its vendor's library if it is supported, otherwise from its driver's files.

    Args:
        found: the card.
        load_nvml: returns the module `pynvml`, or None if NVIDIA's library is missing.
    """
    if found.driver == _NVIDIA_DRIVER and found.card.bdf:
        nvml = load_nvml()
        return CardReading() if nvml is None else read_by_nvml(nvml, found.card.bdf)
    folder: Path | None = found.device
    return CardReading() if folder is None else read_by_files(folder, found.driver)
