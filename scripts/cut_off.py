"""Run a command and end it, with all that it started, as soon as a condition holds: as a power cut would.

Usage: cut_off.py CONDITION COMMAND [ARGUMENT…]

CONDITION is a line for the shell, tried again and again until it succeeds. The exit status is 0 where the command was
cut off, 1 where it ended by itself before.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 600
POLL_SECONDS = 0.05


def main() -> int:
    """Run it; return the exit status."""
    condition, *command = sys.argv[1:]
    deadline = time.monotonic() + SECONDS
    with subprocess.Popen(command) as process:
        while process.poll() is None and time.monotonic() < deadline:
            tried = subprocess.run(condition, shell=True, capture_output=True, check=False)  # noqa: S602 - by its contract
            if tried.returncode == 0 and process.poll() is None:
                for each in (process.pid, *find_descendants(process.pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(each, signal.SIGKILL)
                print(f"cut off when `{condition}` held")
                return 0
            time.sleep(POLL_SECONDS)
        process.kill()
    print(f"error: the command ended with {process.returncode} before `{condition}` held", file=sys.stderr)
    return 1


def find_descendants(pid: int) -> list[int]:
    """Return the processes below one; those of Ansible are in sessions of their own."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything.
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = [pid]
    for parent in found:
        found += [child for child, above in parents.items() if above == parent]
    return found[1:]


if __name__ == "__main__":
    sys.exit(main())
