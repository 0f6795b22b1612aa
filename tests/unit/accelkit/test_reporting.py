import logging

import accelkit.reporting as module
from accelkit.reporting import OnceReporter

log = logging.getLogger("test")


def test_once_reporter_logs_and_counts_each_key_once(caplog):
    reporter = OnceReporter(log, logging.ERROR)
    for key in "aba":
        reporter.report(key, f"{key} is wrong")
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.ERROR, "a is wrong"),
        (logging.ERROR, "b is wrong"),
    ]
    assert reporter.count == 2


def test_once_reporter_logs_cause_of_error(caplog):
    OnceReporter(log).report("a", "a is wrong", error=ValueError("seven"))
    assert "ValueError: seven" in caplog.text


def test_once_reporter_reports_each_of_150000_keys_once():
    reporter = OnceReporter(log, logging.DEBUG)
    for _ in range(2):
        for number in range(150_000):
            reporter.report(str(number), "wrong")
    assert reporter.count == 150_000


def test_once_reporter_discards_least_recently_used_key_first(monkeypatch, caplog):
    monkeypatch.setattr(module, "_KEYS", 2)
    reporter = OnceReporter(log)
    for key in "abaca":
        reporter.report(key, key)
    assert [each.getMessage() for each in caplog.records] == list("abc")
    reporter.report("b", "b")
    assert reporter.count == 4
