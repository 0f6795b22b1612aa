"""Run parts of the tests one after the other, and end with a summary; `make test` and `make test-all` run it.

    python scripts/test_parts.py PART …    # each is the target `test-PART` of the Makefile; `all` stands for all parts

A part that fails does not keep the next ones from running. The exit status is 1 if any part failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "build" / "test-results"
PARTS = {
    "unit": "unit tests",
    "integration": "core integration tests: each capability once",
    "extended": "extended integration tests: variants, settings and longer playbooks",
    "long": "long integration tests: playbooks that run for many minutes",
    "other-python": "some unit tests on another release of Python",
    "collection": "shipped unit tests, as ansible-test runs them",
}
# The core integration tests, and those extended ones that cover a change.
SUBMISSION = "submission"
# The part that runs what another part leaves out.
TIERS = {"core": "integration", "extended": "extended", "long": "long"}


@dataclass(frozen=True, slots=True)
class Result:
    """What one part did.

    Attributes:
        part: its name.
        status: the exit status.
        seconds: how long it ran.
        found: what `tests/support/results.py` wrote; nothing if the part runs no pytest of ours.
    """

    part: str
    status: int
    seconds: float
    found: dict[str, Any]

    def count(self, outcome: str) -> int:
        """Return how many tests had this outcome."""
        return int(self.found.get("counts", {}).get(outcome, 0))


def main() -> int:
    """Run the parts; return the exit status."""
    names = sys.argv[1:]
    parts = list(PARTS) if names == ["all"] else names
    if not parts or any(part not in PARTS and part != SUBMISSION for part in parts):
        print(__doc__, *PARTS, SUBMISSION, file=sys.stderr)
        return 2
    results = [run_part(part) for part in parts]
    print("\n".join(summarize(results)), flush=True)
    return 1 if any(result.status for result in results) else 0


def run_part(part: str) -> Result:
    """Run the make target of a part."""
    path = FOLDER / f"{part}.json"
    path.unlink(missing_ok=True)
    began = time.monotonic()
    command = ["make", "--no-print-directory", f"test-{part}"]
    environment = {**os.environ, "TEST_RESULTS": str(path)}
    status = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode
    found = json.loads(path.read_text()) if path.exists() else {}
    return Result(part, status, time.monotonic() - began, found)


def summarize(results: Sequence[Result]) -> list[str]:
    """Return the lines of the summary."""
    total = format_time(sum(result.seconds for result in results))
    lines = ["", f"Summary: {total} in all", f"  {'part':14} {'result':8} {'time':>11} passed failed skipped"]
    for result in results:
        outcome = "FAILED" if result.status else "passed"
        counts = [f"{result.count(name):{len(name)}}" for name in ("passed", "failed", "skipped") if result.found]
        lines.append(" ".join([f"  {result.part:14} {outcome:8} {format_time(result.seconds):>11}", *counts]))
    lines += list_under("Failed tests", (test for each in results for test in each.found.get("failed", ())))
    skipped = sum((Counter(each.found.get("skipped", {})) for each in results), Counter[str]())
    lines += list_under("Skipped tests, by reason", (f"{count:4}  {why}" for why, count in skipped.most_common()))
    quarantined = [test for each in results for test in each.found.get("quarantined", ())]
    lines += list_under("Quarantined tests, whose failures do not count", quarantined or ["none"])
    return lines + list_under("Not run", list_left_out(results))


def list_under(title: str, lines: Iterable[str]) -> list[str]:
    """Return a list with its title; nothing if it is empty."""
    found = [f"  {line}" for line in lines]
    return [f"{title}:", *found] if found else []


def list_left_out(results: Sequence[Result]) -> list[str]:
    """Return which parts did not run, with the command that runs each."""
    counts = Counter[str]()
    for result in results:
        counts |= Counter({TIERS[tier]: count for tier, count in result.found.get("left_out", {}).items()})
    ran = {result.part for result in results}
    if SUBMISSION in ran:
        ran |= {"integration"} if counts["extended"] else {"integration", "extended"}
    lines = [f"{describe(part, counts)} (make test-{part})" for part in PARTS if part not in ran]
    return [*lines, "make test-all runs all of these"] if lines else []


def describe(part: str, counts: Counter[str]) -> str:
    """Return what a part is, with the number of its tests if it is known."""
    return f"{counts[part]} {PARTS[part]}" if counts[part] else PARTS[part]


def format_time(seconds: float) -> str:
    """Return a duration in minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    sys.exit(main())
