from __future__ import annotations

import io
import json
import logging
import re
import sys
from datetime import datetime, timedelta
from logging.handlers import RotatingFileHandler

import pytest

from accelkit.logs import FORMAT, ErrorReporter, Facts, LogFormat, RepeatLog, set_up_service_log

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


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("default/a", "default/a"),
        ("a b", '"a b"'),
        ("", '""'),
        ('x" node=other', '"x\\" node=other"'),
        ("x=y", '"x=y"'),
        ("two\nlines", '"two\\nlines"'),
        ("²", '"²"'),
        (7, "7"),
        (0.25, "0.2500"),
        (None, "null"),
        ({"GPU-1": "8Gi"}, '{"GPU-1":"8Gi"}'),
    ],
)
def test_facts_are_words_of_which_each_is_one_value(value, text):
    assert str(Facts("bound", pod=value, uid="u")) == f"bound pod={text} uid=u"


def test_a_line_of_json_has_what_a_line_of_text_has(root, monkeypatch, tmp_path):
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    set_up_service_log("service", tmp_path, LogFormat.JSON)
    logging.getLogger("accelkit.test").info(Facts("bound", pod="default/a\n", uid="u", level="mine"))
    logging.getLogger("accelkit.test").warning("no %s", "hello")
    try:
        raise ValueError("why")  # noqa: TRY301 - it is what is logged
    except ValueError:
        logging.getLogger("accelkit.test").exception("it failed")
    assert (tmp_path / "service.log").read_text(encoding="utf-8") == output.getvalue()
    bound, warned, failed = map(json.loads, output.getvalue().splitlines())
    assert datetime.fromisoformat(bound.pop("time")).utcoffset() == timedelta(0)
    assert re.fullmatch(r"test_logs.py:\d+", bound.pop("source"))
    assert bound == {
        "pod": "default/a\n",
        "uid": "u",
        "level": "INFO",
        "logger": "accelkit.test",
        "message": "bound",
    }
    assert (warned["level"], warned["message"]) == ("WARNING", "no hello")
    assert failed["exception"].endswith("ValueError: why")


def test_what_repeats_is_logged_once_in_an_interval_with_its_count(caplog):
    caplog.set_level(logging.INFO)
    now = [0.0]
    repeats = RepeatLog(logging.getLogger("accelkit.test"), seconds=60, clock=lambda: now[0])
    for seconds, pod in ((0, "a"), (1, "a"), (2, "b"), (59, "a"), (60, "a"), (61, "a")):
        now[0] = seconds
        repeats.info(pod, lambda pod=pod: Facts("filter", pod=pod))
    assert said(caplog) == [(logging.INFO, each) for each in ("filter pod=a", "filter pod=b", "filter pod=a repeats=2")]
    assert {record.filename for record in caplog.records} == {"test_logs.py"}


def test_what_is_remembered_of_repeats_is_bounded(caplog):
    caplog.set_level(logging.INFO)
    repeats = RepeatLog(logging.getLogger("accelkit.test"), keys=2, clock=lambda: 0.0)
    for pod in "abcab":
        repeats.info(pod, lambda pod=pod: Facts("filter", pod=pod))
    assert len(caplog.records) == 5
    assert len(repeats._seen) == 2


@pytest.mark.parametrize("log_format", list(LogFormat))
@pytest.mark.parametrize(
    "written",
    ["\x1b[2J", "two\nlines", "\r", "\x9b31m", "\u202e", "\u2028", "tab\t"],
    ids=["escape", "newline", "return", "C1", "bidi", "separator", "tab"],
)
def test_what_users_write_steers_no_terminal_and_begins_no_line(root, tmp_path, log_format, written):
    set_up_service_log("service", tmp_path, log_format)
    log = logging.getLogger("accelkit.test")
    log.warning("process %s of a container", written)
    log.warning(Facts("allocated", container=written))
    log.error("failed on %s", written, exc_info=ValueError(written))
    text = (tmp_path / "service.log").read_text(encoding="utf-8")
    assert all(each.isprintable() for each in text.split("\n")[:-1])
    if log_format is LogFormat.JSON:
        assert len(text.splitlines()) == 3
