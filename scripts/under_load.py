"""Run a command while other processes keep every processor busy; `make test-stress` runs the tests this way.

    python scripts/under_load.py COMMAND [ARGUMENT …]

The exit status is that of the command.
"""

from __future__ import annotations

import os
import subprocess
import sys

BUSY = "while True: pass"


def main() -> int:
    """Run the command; return its exit status."""
    command = sys.argv[1:]
    if not command or command[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    count = len(os.sched_getaffinity(0))
    print(f"{count} other processes keep all processors busy", flush=True)
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        for each in others:
            each.kill()
            each.wait()


if __name__ == "__main__":
    sys.exit(main())
