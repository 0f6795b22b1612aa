"""Counts the tests that were skipped, by reason; where `CI` is set, a reason that nobody explained fails the run.

The reasons that are explained stand in `allowed_skips.toml`: what a machine may lack without its checks being worth
less than they say.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ALLOWED = Path(__file__).with_name("allowed_skips.toml")
# Differs from the status of failed tests, so that the cause can be read from the status.
UNEXPLAINED_STATUS = 6


class SkipCount:
    """What was skipped in this session, under xdist in all of its processes."""

    def __init__(self, allowed: dict[str, str], *, strict: bool) -> None:
        self._allowed = {re.compile(pattern): why for pattern, why in allowed.items()}
        self._strict = strict
        # A file that is skipped as a whole is reported by each process.
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._add(report)

    def _add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # An expected failure is called skipped too.
        if report.skipped and not hasattr(report, "wasxfail"):
            self._reasons[report.nodeid] = read_reason(report)

    def explanation(self, reason: str) -> str | None:
        """Return why a skip may be; None where it may not."""
        return next((why for pattern, why in self._allowed.items() if pattern.search(reason)), None)

    @property
    def unexplained(self) -> set[str]:
        return {reason for reason in self._reasons.values() if self.explanation(reason) is None}

    # Before pytest's own, which prints the summary.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self._strict and self.unexplained and session.exitstatus in ended:
            session.exitstatus = UNEXPLAINED_STATUS

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._reasons:
            return
        terminalreporter.section("skipped tests")
        for reason, number in Counter(self._reasons.values()).most_common():
            why = self.explanation(reason) or "NOT EXPLAINED"
            terminalreporter.line(f"{number:4}  {reason} ({why})")
        if self._strict and self.unexplained:
            terminalreporter.line(
                f"CI is set, so this run fails: install what is missing (`make programs`), or explain it in "
                f"tests/{ALLOWED.name}",
                red=True,
            )


def read_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why a test was skipped."""
    *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else (report.longreprtext,)
    return reason.removeprefix("Skipped: ")


def pytest_configure(config: pytest.Config) -> None:
    # Under xdist the processes report to the one that has no workerinput.
    if not hasattr(config, "workerinput"):
        allowed = tomllib.loads(ALLOWED.read_text(encoding="utf-8"))["reasons"]
        config.pluginmanager.register(SkipCount(allowed, strict=bool(os.environ.get("CI"))))
