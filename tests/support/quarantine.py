"""Quarantine: tests listed in `tests/quarantine.toml` run, but their failures do not fail the run.

Each run ends with the results of these tests.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LIST = Path(__file__).parents[1] / "quarantine.toml"
MOST = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """A test that may fail.

    Attributes:
        id: the test, as pytest prints it.
        since: the day on which it was listed.
        reason: what is known about the cause.
    """

    id: str
    since: dt.date
    reason: str


def read_entries(path: Path = LIST) -> list[Entry]:
    """Read the list.

    Raises:
        ValueError: an entry lacks something, or there are too many.
    """
    entries = [_read_entry(each) for each in tomllib.loads(path.read_text(encoding="utf-8"))["tests"]]
    if len(entries) > MOST:
        raise ValueError(f"{path.name} lists {len(entries)} tests, and at most {MOST} are allowed: repair one of them")
    return entries


def _read_entry(given: dict[str, Any]) -> Entry:
    match given:
        case {"id": str(test), "since": dt.date() as since, "reason": str(reason), **more} if not more:
            if "::" in test and reason.strip():
                return Entry(test, since, reason)
    raise ValueError(f"an entry of the quarantine needs id, since (a date) and reason, and nothing else: {given}")


def read_id(nodeid: str) -> str:
    """Return the name of a test without the group that xdist adds to it."""
    return re.sub(r"@[^@\[\]]*$", "", nodeid)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Quarantine(read_entries()), "quarantine")


class Quarantine:
    """Turns failures of the listed tests into expected ones, and prints the results."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = {entry.id: entry for entry in entries}
        self.results: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        entry = self._entries.get(read_id(item.nodeid))
        if entry and report.failed:
            report.outcome, report.wasxfail = "skipped", f"quarantined: {entry.reason}"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = read_id(report.nodeid)
        if test in self._entries:
            failed = str(getattr(report, "wasxfail", "")).startswith("quarantined: ")
            if failed or (report.when == "call" and self.results.get(test) != "failed"):
                self.results[test] = "failed" if failed else report.outcome

    def describe(self) -> list[str]:
        """Return a line for each listed test that ran."""
        return [
            f"{self.results[test]}: {test} (since {entry.since}: {entry.reason})"
            for test, entry in self._entries.items()
            if test in self.results
        ]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if lines := self.describe():
            terminalreporter.section("quarantined tests")
            for line in lines:
                terminalreporter.line(line)
