"""Ask Git where a branch left another one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path


def run_git(repository: Path, *arguments: str) -> str | None:
    """Return what Git prints; None if it fails or is missing."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=repository, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def list_merge_bases(repository: Path, branches: Iterable[str]) -> Iterator[str]:
    """Yield the commits at which HEAD left those of the branches that exist; HEAD itself where it is on the branch."""
    for branch in branches:
        base = run_git(repository, "merge-base", "HEAD", branch)
        if base:
            yield base.strip()
