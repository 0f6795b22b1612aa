"""The time in which the machine stood still: other programs had its processors while the laboratory's waited for one.

A deadline of the checker is meant for a machine that works. `MachineClock` does not count the time in which the machine
did not, so that a starved machine fails no storm, and says how much that was.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

SAMPLE_SECONDS = 0.5
# A sample counts where the machine stood still for this part of it at least, and never for more than the other: a
# deadline that moves on as fast as the clock would never end.
LEAST_SHARE = 0.25
MOST_SHARE = 0.75
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """What the kernel counts, in seconds.

    Attributes:
        at: when it was read.
        busy: processor time of all programs of the machine, and what the hypervisor gave to other machines.
        own: processor time by process of the laboratory.
        waited: for how long each thread of the laboratory was ready to run and had no processor.
    """

    at: float
    busy: float
    own: Mapping[int, float]
    waited: Mapping[tuple[int, int], float]


def count_standstill(before: Sample, after: Sample, processors: int) -> float:
    """Return for how many seconds the machine stood still between two samples.

    That is how much later the second one was taken than it should be, and the time that the processors spent on other
    programs, as far as a thread of the laboratory waited for them.
    """
    elapsed = after.at - before.at
    late = max(0.0, elapsed - SAMPLE_SECONDS)
    own = sum(seconds - before.own[pid] for pid, seconds in after.own.items() if pid in before.own)
    others = max(0.0, after.busy - before.busy - own) / processors
    waited = max((each - before.waited[key] for key, each in after.waited.items() if key in before.waited), default=0.0)
    lost = min(late + min(others, waited), MOST_SHARE * elapsed)
    return lost if lost >= LEAST_SHARE * elapsed else 0.0


def take_sample(pids: Collection[int]) -> Sample:
    """Read what the kernel counts now; processes that have ended are left out."""
    own: dict[int, float] = {}
    waited: dict[tuple[int, int], float] = {}
    for pid in pids:
        folder = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            # After the name in parentheses: user and system time are the 14th and 15th field of all, those of children
            # that have ended the 16th and 17th.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            own[pid] = sum(map(int, fields[11:15])) / TICKS
            for thread in (folder / "task").iterdir():
                waited[pid, int(thread.name)] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    # user, nice, system, idle, iowait, irq, softirq, steal
    numbers = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return Sample(time.monotonic(), (sum(numbers) - numbers[3] - numbers[4]) / TICKS, own, waited)


class MachineClock:
    """A clock of seconds that does not count the time in which the machine stood still; a thread keeps it.

    Args:
        pids: returns the processes of the laboratory.

    Attributes:
        seconds: the time of the clock, as of the last sample.
        stood_still: how many seconds it has not counted.
    """

    def __init__(self, pids: Callable[[], Collection[int]]) -> None:
        self._pids = pids
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine clock", daemon=True)
        self.seconds = time.monotonic()
        self.stood_still = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def advance(self, before: Sample, after: Sample) -> None:
        """Move on from one sample to the next."""
        lost = count_standstill(before, after, os.cpu_count() or 1)
        self.stood_still += lost
        self.seconds += after.at - before.at - lost

    def _run(self) -> None:
        last = take_sample(self._pids())
        while not self._end.wait(SAMPLE_SECONDS):
            sample = take_sample(self._pids())
            self.advance(last, sample)
            last = sample
