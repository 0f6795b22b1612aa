"""Run unit tests under another Python than that of .venv, with the packages of .venv; `make test-other-python` runs it.

Two releases of one minor version differ too: Debian 12's 3.11.2 lacks what 3.11.4 has. They load the same compiled
packages, so nothing is installed a second time. Where there is no such Python, nothing is run.

Usage: other_python.py PYTHON [ARGUMENT OF PYTEST …]
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
ENVIRONMENT = REPOSITORY / ".cache" / "other-python"
PROBE_SECONDS = 60


def main() -> int:
    """Run pytest where the other Python differs in its last number only; return the exit status."""
    python, *arguments = sys.argv[1:]
    ours, theirs = sys.version_info[:3], read_version(python)
    if theirs is None or theirs == ours or theirs[:2] != ours[:2]:
        found = "not there" if theirs is None else ".".join(map(str, theirs))
        print(f"{python} is {found} and .venv has {'.'.join(map(str, ours))}: there is nothing to compare")
        return 0
    command = [python, "-m", "venv", "--clear", "--without-pip", str(ENVIRONMENT)]
    subprocess.run(command, check=True, timeout=PROBE_SECONDS)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(ENVIRONMENT)}))
    # As a site folder its .pth files are read, which lead to src.
    (packages / "shared.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "brief"}
    # Processes that outlive their event loop are told of at random, by whatever test runs when they are thrown away;
    # our own Python is the judge of those.
    filter_ = "default::pytest.PytestUnraisableExceptionWarning"
    tests = [str(ENVIRONMENT / "bin" / "python"), "-m", "pytest", "-W", filter_, *arguments]
    return subprocess.run(tests, cwd=REPOSITORY, env=environment, check=False).returncode


def read_version(python: str) -> tuple[int, ...] | None:
    """Return the version of a Python; None where it does not run."""
    ask = "import sys; print(*sys.version_info[:3])"
    try:
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, timeout=PROBE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(map(int, done.stdout.split()))


if __name__ == "__main__":
    sys.exit(main())
