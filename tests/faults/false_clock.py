"""Clocks that jump: libfaketime adds an offset to the wall clock of a process, and reads it again every second.

Clocks that measure time that passed are not changed, as on a host whose time is set.
"""

from __future__ import annotations

from pathlib import Path

# Where Debian's package puts it.
LIBRARIES = tuple(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")))


class FalseClock:
    """The wall clock of one process, which is right until it jumps.

    Attributes:
        environment: variables with which the process is started; none where libfaketime is not installed.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump(0)
        self.environment = (
            {
                "LD_PRELOAD": str(LIBRARIES[0]),
                "FAKETIME_TIMESTAMP_FILE": str(file),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DISABLE_SHM": "1",
                "DONT_FAKE_MONOTONIC": "1",
            }
            if LIBRARIES
            else {}
        )

    def jump(self, seconds: float) -> None:
        """Let the clock differ from the right one by so many seconds."""
        self._file.write_text(f"{seconds:+.0f}\n")
