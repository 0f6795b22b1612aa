"""Run the benchmarks one after the other, and print all figures that have an aim as a table.

    python bench/run_all.py [NAME ...]

Each writes its results into build/bench/NAME.json. A benchmark that fails is told of at the end, and the others are run
all the same. All of them take about an hour on two idle cores, as is estimated.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE.parent / "build" / "bench"
NAMES = (
    *(
        "filter",
        "search",
        "scheduler",
        "groups",
        "cluster",
        "failover",
        "memory",
        "cache",
        "cache_delivery",
        "devices",
        "allocation",
        "enablement",
    ),
    *("perturbed", "bound"),
)
_HEAD = ("benchmark", "figure", "value", "aim", "")


def run(name: str) -> bool:
    """Run a benchmark; return whether it came to its end."""
    print(f"{name} …", file=sys.stderr, flush=True)
    started = time.monotonic()
    done = subprocess.run([sys.executable, HERE / f"{name}.py"], stdout=subprocess.PIPE, check=False)
    if done.returncode == 0:
        (RESULTS / f"{name}.json").write_bytes(done.stdout)
    print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return done.returncode == 0


def list_figures(results: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield each figure of a benchmark's results: what it is, its value, its aim, and whether that is met."""
    if not isinstance(results, dict):
        return
    if "aim" in results and "met" in results:
        yield ", ".join(path), str(results["figure"]), str(results["aim"]), "met" if results["met"] else "NOT MET"
        return
    for key, each in results.items():
        yield from list_figures(each, (*path, str(key)))


def format_table(results: dict[str, object]) -> str:
    """Return the figures of all benchmarks in columns."""
    rows = [_HEAD, *((name, *row) for name, each in results.items() for row in list_figures(each))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all of them by default")
    options = parser.parse_args()
    names = options.names or NAMES
    if unknown := [name for name in names if name not in NAMES]:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names if not run(name)]
    done = {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in names if name not in failed}
    print(format_table(done))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
