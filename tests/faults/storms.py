"""Run storms one after the other, and keep their seeds and results in a table.

    python tests/faults/storms.py                                  # ten storms of three minutes, with new seeds
    python tests/faults/storms.py --storms 100 --seconds 120
    python tests/faults/storms.py --seed 7 --seconds 180           # one storm again

Options that are not listed here are those of storm.py. Each storm is a process of its own; the first that is violated
ends the run, unless `--go-on` is given. The exit status is 1 where one was violated.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
STORM = Path(__file__).with_name("storm.py")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--storms", type=int, default=10)
    parser.add_argument("--seed", type=int, help="run this storm alone")
    parser.add_argument("--go-on", action="store_true", help="do not end at the first storm that is violated")
    parser.add_argument("--table", type=Path, default=REPOSITORY / "build/storms/table.txt")
    options, rest = parser.parse_known_args()
    options.table.parent.mkdir(parents=True, exist_ok=True)
    seeds = [options.seed] if options.seed is not None else [draw_seed() for _ in range(options.storms)]
    violated = 0
    for seed in seeds:
        began = time.monotonic()
        status = subprocess.run([sys.executable, str(STORM), "--seed", str(seed), *rest], check=False).returncode
        violated += bool(status)
        with options.table.open("a") as table:
            what = "violated" if status else "held"
            print(f"{seed} {what} after {time.monotonic() - began:.0f} s: {' '.join(rest)}", file=table)
        if status and not options.go_on:
            break
    return 1 if violated else 0


def draw_seed() -> int:
    return random.SystemRandom().getrandbits(32)


if __name__ == "__main__":
    sys.exit(main())
