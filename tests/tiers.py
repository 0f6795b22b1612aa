"""Tiers of integration tests: core has no mark; extended and long tests have marks of these names.

`--tiers` names the tiers that run. `--extended-in FILE` limits the extended tests to the test files that FILE lists,
one a line; the line `all` stands for all of them. A run ends with the number of tests that it left out.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

MARKED = {
    "extended": "a variant of what another test proves, or minutes of playbooks; `make test` leaves it out",
    "long": "playbooks that run for many minutes; only `make test-long` runs it",
}
TIERS = ("core", *MARKED)
BY_DEFAULT = "core,extended"
# How many tests of each tier a run leaves out.
LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tiers", default=BY_DEFAULT, help=f"tiers of tests to run, of {','.join(TIERS)} [{BY_DEFAULT}]")
    group.addoption("--extended-in", type=Path, metavar="FILE", help="run extended tests of the listed files only")


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKED.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    tiers = set(config.getoption("tiers").split(","))
    if unknown := tiers.difference(TIERS):
        raise pytest.UsageError(f"--tiers: {', '.join(sorted(unknown))}: not one of {', '.join(TIERS)}")
    config.stash[LEFT_OUT] = {}
    listed: Path | None = config.getoption("extended_in")
    files = None if listed is None else frozenset(listed.read_text().split())
    config.pluginmanager.register(_Selection(config.rootpath, tiers, None if files and "all" in files else files))


def read_tier(item: pytest.Item) -> str:
    """Return the tier of a test; a test with both marks is long."""
    return next((name for name in reversed(TIERS) if item.get_closest_marker(name)), "core")


class _Selection:
    """Leaves out the tests that are not of the wanted tiers and files."""

    def __init__(self, root: Path, tiers: set[str], files: frozenset[str] | None) -> None:
        self._root, self._tiers, self._files = root, tiers, files

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if not self._wants(item)]
        config.stash[LEFT_OUT] = dict(Counter(map(read_tier, left_out)))
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if self._wants(item)]

    def _wants(self, item: pytest.Item) -> bool:
        tier = read_tier(item)
        if tier == "extended" and self._files is not None:
            return tier in self._tiers and item.path.relative_to(self._root).as_posix() in self._files
        return tier in self._tiers

    # Under xdist the processes collect the same tests, and the one that starts them prints the summary.
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["left_out"] = session.config.stash[LEFT_OUT]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        node.config.stash[LEFT_OUT].update(getattr(node, "workeroutput", {}).get("left_out", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        for tier, count in config.stash[LEFT_OUT].items():
            terminalreporter.line(f"left out: {count} tests of the tier {tier} (--tiers {tier} runs them)")
