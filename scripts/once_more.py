"""Run tests beside each other, and the few that fail once more, alone; `make test-integration` runs it.

Tests with real deadlines share two cores, and such a machine may stand still for seconds. What fails twice has failed;
what passes alone is named at the end, since it is a test, or a product, that does not bear a slow machine. More than a
few at once are no accident, and a run that did not end as runs of tests end has no second one.

Usage: once_more.py [OPTION OF PYTEST FOR THE FIRST RUN …] FOLDER
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FAILED = REPOSITORY / ".pytest_cache" / "v" / "cache" / "lastfailed"
MOST = 8
TESTS_FAILED = 1


def main() -> int:
    """Return the exit status of the first run, or of the second where there was one."""
    *options, folder = sys.argv[1:]
    FAILED.unlink(missing_ok=True)
    status = run_tests(*options, folder)
    failed = read_failed()
    FAILED.unlink(missing_ok=True)
    if status != TESTS_FAILED or not 0 < len(failed) <= MOST:
        return status
    print(f"\nOnce more, alone: {len(failed)} failed beside the others", flush=True)
    status = run_tests(*failed)
    passed = sorted(set(failed) - set(read_failed()))
    print(
        f"\n{len(passed)} of {len(failed)} passed alone and failed beside the others", *passed, sep="\n  ", flush=True
    )
    return status


def run_tests(*arguments: str) -> int:
    """Run pytest as this Python has it; return its exit status."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=REPOSITORY, check=False).returncode


def read_failed() -> list[str]:
    """Return the names of the tests, files and folders that failed in the last run.

    Where tests are distributed by groups, xdist adds `@GROUP` to their names, by which no other run knows them:
    pytest's own `--last-failed` would find none of them, and run them all.
    """
    names = json.loads(FAILED.read_text(encoding="utf-8")) if FAILED.exists() else {}
    return [re.sub(r"@[^@\[\]]*$", "", name) for name in names]


if __name__ == "__main__":
    sys.exit(main())
