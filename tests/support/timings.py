"""Record how long tests and their fixtures take, if `TEST_TIMES` names a folder.

Each process appends to a file of its own: one JSON object for each phase of a test, each fixture that it set up, and
each program that it ran by `subprocess.run`. `scripts/test_times.py` adds them up.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

# Tests replace these functions where they are, so the recorder keeps its own.
from os import write
from pathlib import Path
from time import monotonic
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if folder := os.environ.get("TEST_TIMES"):
        recorder = Recorder(Path(folder))
        config.pluginmanager.register(recorder, "test-times")
        setattr(subprocess, "run", recorder.time_program(subprocess.run))  # noqa: B010 - mypy refuses the assignment


class Recorder:
    """Writes what a process measured to a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        began = monotonic()
        try:
            return (yield)
        finally:
            path = str(request.node.nodeid).partition("::")[0]
            self._write("fixture", path, fixturedef.argname, monotonic() - began)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # xdist's controller receives the reports of its workers, which write them, too.
        if not hasattr(report, "node"):
            self._write(report.when, report.nodeid.partition("::")[0], report.nodeid, report.duration)

    def time_program(self, run: Any) -> Any:
        """Return a `subprocess.run` that records how long each program took, by its name and first argument."""

        def timed(command: Any, *arguments: Any, **options: Any) -> Any:
            began = monotonic()
            try:
                return run(command, *arguments, **options)
            finally:
                words = [command] if isinstance(command, str | Path) else list(command)
                name = " ".join([Path(str(words[0])).name, *map(str, words[1:2])])
                test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
                self._write("program", test, name, monotonic() - began)

        return timed

    def _write(self, phase: str, path: str, name: str, seconds: float) -> None:
        row = {"phase": phase, "file": path, "name": name, "seconds": round(seconds, 4)}
        write(self._file, f"{json.dumps(row)}\n".encode())
