"""Write what a run of tests found to the file that `TEST_RESULTS` names; `scripts/test_parts.py` prints it."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from skips import read_reason
from tiers import LEFT_OUT

from support.quarantine import Quarantine, read_id


def pytest_configure(config: pytest.Config) -> None:
    if (path := os.environ.get("TEST_RESULTS")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Results(Path(path)), "results")


class Results:
    """Outcomes of the tests of one run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, str] = {}
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._add(report, report.when == "call")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._add(report, counts=False)

    def _add(self, report: pytest.TestReport | pytest.CollectReport, counts: bool) -> None:
        name = read_id(report.nodeid)
        if report.failed:
            self._outcomes[name] = "failed"
        elif report.skipped:
            self._outcomes[name] = "expected to fail" if hasattr(report, "wasxfail") else "skipped"
            if not hasattr(report, "wasxfail"):
                self._reasons[name] = read_reason(report)
        elif counts:
            self._outcomes.setdefault(name, "passed")

    def pytest_terminal_summary(self, config: pytest.Config) -> None:
        quarantine = config.pluginmanager.get_plugin("quarantine")
        found = {
            "counts": Counter(self._outcomes.values()),
            "failed": sorted(name for name, outcome in self._outcomes.items() if outcome == "failed"),
            "skipped": Counter(self._reasons.values()),
            "left_out": config.stash[LEFT_OUT],
            "quarantined": quarantine.describe() if isinstance(quarantine, Quarantine) else [],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(found))
