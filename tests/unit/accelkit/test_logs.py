from __future__ import annotations

import io
import logging
import re
import sys
from logging.handlers import RotatingFileHandler

import pytest

from accelkit.logs import FORMAT, ErrorReporter, set_up_service_log

LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO accelkit.test test_logs.py:\d+ hello\n"


@pytest.fixture
def root(monkeypatch):
    """The root logger with the handlers of a fresh process, writing to what was standard error."""
    logger = logging.getLogger()
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(logging.Formatter(FORMAT))
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "level", logging.INFO)
    yield logger
    for each in logger.handlers:
        each.close()


def said(caplog):
    return [(each.levelno, each.getMessage()) for each in caplog.records]


def test_an_error_is_logged_once_for_as_long_as_it_stays_the_same(caplog):
    reporter = ErrorReporter(logging.getLogger("accelkit.test"))
    for error in ("a", "a", "b", "b", "a"):
        reporter.report(error, f"100 % {error}")
    assert said(caplog) == [(logging.WARNING, f"100 % {each}") for each in "aba"]


def test_an_error_that_comes_back_is_logged_anew(caplog):
    reporter = ErrorReporter(logging.getLogger("accelkit.test"), logging.ERROR)
    reporter.report("a", "first")
    reporter.clear()
    reporter.report("a", "again")
    assert said(caplog) == [(logging.ERROR, "first"), (logging.ERROR, "again")]


def test_a_service_logs_to_standard_output(root, monkeypatch):
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    set_up_service_log("service", None)
    logging.getLogger("accelkit.test").info("hello")
    assert re.fullmatch(LINE, output.getvalue())
    assert not [each for each in root.handlers if isinstance(each, logging.FileHandler)]


def test_a_service_logs_to_a_file_that_outlives_it_as_well(root, tmp_path):
    set_up_service_log("service", tmp_path)
    logging.getLogger("accelkit.test").info("hello")
    assert re.fullmatch(LINE, (tmp_path / "service.log").read_text(encoding="utf-8"))
    (file,) = (each for each in root.handlers if isinstance(each, RotatingFileHandler))
    assert (file.maxBytes, file.backupCount) == (10 << 20, 5)


def test_other_handlers_than_that_of_the_terminal_are_left_alone(root, tmp_path):
    other = logging.FileHandler(tmp_path / "other.log")
    root.addHandler(other)
    set_up_service_log("service", None)
    logging.getLogger("accelkit.test").info("hello")
    assert (tmp_path / "other.log").read_text() == "hello\n"


def test_a_folder_that_cannot_be_written_is_a_warning(root, caplog, tmp_path):
    set_up_service_log("service", tmp_path / "missing")
    ((level, message),) = said(caplog)
    assert level == logging.WARNING
    assert f"no log is kept in {tmp_path}/missing: No such file or directory; make the folder writable" in message
    assert not [each for each in root.handlers if isinstance(each, RotatingFileHandler)]
