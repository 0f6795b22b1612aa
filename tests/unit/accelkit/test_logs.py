import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from logging.handlers import RotatingFileHandler
from pathlib import Path

import pytest

from accelkit.logs import ErrorReporter, Facts, LogFormat, RepeatLog, set_up_log, set_up_service_log

LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO accelkit.test test_logs.py:\d+ hello\n"


@pytest.fixture
def root(monkeypatch):
    """The root logger with the handlers of a fresh process, writing to what was standard error."""
    logger = logging.getLogger()
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.INFO)
    set_up_log("INFO")
    yield logger
    for each in logger.handlers:
        # A full disk and a stream that the test closed cannot be flushed.
        with contextlib.suppress(OSError, ValueError):
            each.close()


@pytest.fixture
def full_disk(tmp_path):
    """A folder whose service.log lies on a full disk."""
    (tmp_path / "service.log").symlink_to("/dev/full")
    return tmp_path


def said(caplog):
    return [(each.levelno, each.getMessage()) for each in caplog.records]


def test_repeated_error_is_logged_once_until_error_changes(caplog):
    reporter = ErrorReporter(logging.getLogger("accelkit.test"))
    for error in ("a", "a", "b", "b", "a"):
        reporter.report(error, f"100 % {error}")
    assert said(caplog) == [(logging.WARNING, f"100 % {each}") for each in "aba"]


def test_error_is_logged_again_after_clear(caplog):
    reporter = ErrorReporter(logging.getLogger("accelkit.test"), logging.ERROR)
    reporter.report("a", "first")
    reporter.clear()
    reporter.report("a", "again")
    assert said(caplog) == [(logging.ERROR, "first"), (logging.ERROR, "again")]


def test_service_logs_to_standard_output_without_log_folder(root, monkeypatch):
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    set_up_service_log("service", None)
    logging.getLogger("accelkit.test").info("hello")
    assert re.fullmatch(LINE, output.getvalue())
    assert not [each for each in root.handlers if isinstance(each, logging.FileHandler)]


def test_service_logs_to_rotating_file_in_log_folder(root, tmp_path):
    set_up_service_log("service", tmp_path)
    logging.getLogger("accelkit.test").info("hello")
    assert re.fullmatch(LINE, (tmp_path / "service.log").read_text(encoding="utf-8"))
    (file,) = (each for each in root.handlers if isinstance(each, RotatingFileHandler))
    assert (file.maxBytes, file.backupCount) == (10 << 20, 5)


def test_service_log_setup_keeps_existing_file_handlers(root, tmp_path):
    other = logging.FileHandler(tmp_path / "other.log")
    root.addHandler(other)
    set_up_service_log("service", None)
    logging.getLogger("accelkit.test").info("hello")
    assert (tmp_path / "other.log").read_text() == "hello\n"


def test_unwritable_log_folder_is_logged_as_warning(root, caplog, tmp_path):
    set_up_service_log("service", tmp_path / "missing")
    ((level, message),) = said(caplog)
    assert level == logging.WARNING
    assert (
        f"cannot write a log file in {tmp_path}/missing: No such file or directory. Make the folder writable" in message
    )
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
def test_log_fact_is_one_value_with_quotes_when_needed(value, text):
    assert str(Facts("bound", pod=value, uid="u")) == f"bound pod={text} uid=u"


def test_json_log_line_has_fields_of_text_log_line(root, monkeypatch, tmp_path):
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


def test_repeated_message_is_logged_once_per_interval_with_count(caplog):
    caplog.set_level(logging.INFO)
    now = [0.0]
    repeats = RepeatLog(logging.getLogger("accelkit.test"), seconds=60, clock=lambda: now[0])
    for seconds, pod in ((0, "a"), (1, "a"), (2, "b"), (59, "a"), (60, "a"), (61, "a")):
        now[0] = seconds
        repeats.info(pod, lambda pod=pod: Facts("filter", pod=pod))
    assert said(caplog) == [(logging.INFO, each) for each in ("filter pod=a", "filter pod=b", "filter pod=a repeats=2")]
    assert {record.filename for record in caplog.records} == {"test_logs.py"}


def test_repeat_log_keeps_bounded_number_of_keys(caplog):
    caplog.set_level(logging.INFO)
    repeats = RepeatLog(logging.getLogger("accelkit.test"), keys=2, clock=lambda: 0.0)
    for pod in "abcab":
        repeats.info(pod, lambda pod=pod: Facts("filter", pod=pod))
    assert len(caplog.records) == 5
    assert len(repeats._logged) == 2


@pytest.mark.parametrize("log_format", list(LogFormat))
@pytest.mark.parametrize(
    "written",
    ["\x1b[2J", "two\nlines", "\r", "\x9b31m", "\u202e", "\u2028", "tab\t"],
    ids=["escape", "newline", "return", "C1", "bidi", "separator", "tab"],
)
def test_control_characters_of_users_are_removed_from_log_lines(root, tmp_path, log_format, written):
    set_up_service_log("service", tmp_path, log_format)
    log = logging.getLogger("accelkit.test")
    log.warning("process %s of a container", written)
    log.warning(Facts("allocated", container=written))
    log.error("failed on %s", written, exc_info=ValueError(written))
    text = (tmp_path / "service.log").read_text(encoding="utf-8")
    assert all(each.isprintable() for each in text.split("\n")[:-1])
    if log_format is LogFormat.JSON:
        assert len(text.splitlines()) == 3


def test_full_log_disk_is_logged_as_one_warning_without_traceback(root, capsys, full_disk):
    set_up_service_log("service", full_disk)
    for number in range(3):
        logging.getLogger("accelkit.test").info("line %d", number)
    output, errors = capsys.readouterr()
    lines = output.splitlines()
    (warned,) = (each for each in lines if " WARNING " in each)
    assert f"cannot write {full_disk}/service.log: No space left on device. Log lines are lost. Free space" in warned
    assert [each.rpartition(" ")[2] for each in lines if each is not warned] == ["0", "1", "2"]
    assert errors == ""


def test_freed_log_disk_is_logged_and_next_failure_is_logged_again(root, full_disk, monkeypatch):
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    set_up_service_log("service", full_disk)
    (file,) = (each for each in root.handlers if isinstance(each, RotatingFileHandler))
    log = logging.getLogger("accelkit.test")
    log.info("lost")
    log.info("lost")
    with (full_disk / "other").open("wb") as space:
        os.dup2(space.fileno(), file.stream.fileno())
    log.info("written")
    assert " written\n" in (full_disk / "other").read_text()
    assert "service.log is writable again; 3 lines may be missing" in output.getvalue()
    with Path("/dev/full").open("wb") as full:
        os.dup2(full.fileno(), file.stream.fileno())
    log.info("lost")
    assert output.getvalue().count("cannot write") == 2


def test_closed_log_file_is_reopened(root, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    set_up_service_log("service", tmp_path)
    (file,) = (each for each in root.handlers if isinstance(each, RotatingFileHandler))
    file.stream.close()
    for number in range(2):
        logging.getLogger("accelkit.test").info("line %d", number)
    assert (tmp_path / "service.log").read_text().splitlines()[-1].endswith("line 1")


def test_full_standard_output_is_logged_as_one_warning_in_log_file(root, monkeypatch, capsys, tmp_path):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        set_up_service_log("service", tmp_path)
        for number in range(2):
            logging.getLogger("accelkit.test").info("line %d", number)
        text = (tmp_path / "service.log").read_text()
        assert (text.count("cannot write standard output: No space left on device"), text.count(" line ")) == (1, 2)
        assert capsys.readouterr().err == ""
        with pytest.raises(OSError, match="No space"):
            full.close()


_LOG = """
import logging, sys
from pathlib import Path
from accelkit.logs import set_up_log, set_up_service_log
set_up_log("INFO")
{before}
logging.getLogger("accelkit.test").info("hello")
Path(sys.argv[1]).write_text("went on")
"""


@pytest.mark.parametrize(
    ("redirect", "before"),
    [
        ("2>&-", ""),
        ("2>/dev/full", ""),
        ("", "sys.stderr.close()"),
        ("", "import os; os.close(2)"),
        (">&-", 'set_up_service_log("service", None)'),
        (">/dev/full", 'set_up_service_log("service", None)'),
        ("", 'sys.stdout.close(); set_up_service_log("service", None)'),
    ],
)
def test_program_continues_without_traceback_after_stream_is_closed_or_full(tmp_path, redirect, before):
    ended, program = tmp_path / "ended", _LOG.format(before=before)
    command = ["sh", "-c", f'exec "$0" "$@" {redirect}', sys.executable, "-c", program, ended]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.read_text() == "went on"
    assert "Traceback" not in done.stderr
    assert "Traceback" not in done.stdout


def test_invalid_log_call_prints_traceback(tmp_path):
    program = _LOG.format(before='logging.getLogger("accelkit.test").info("%d", "a")')
    command = [sys.executable, "-c", program, tmp_path / "ended"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert "--- Logging error ---" in done.stderr
