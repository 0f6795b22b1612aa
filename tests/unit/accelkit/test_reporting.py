import logging

import accelkit.reporting as module
from accelkit.reporting import OnceReporter

log = logging.getLogger("test")


def test_each_key_is_logged_once_and_counted(caplog):
    reporter = OnceReporter(log, logging.ERROR)
    for key in "aba":
        reporter.report(key, f"{key} is wrong")
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [
        (logging.ERROR, "a is wrong"),
        (logging.ERROR, "b is wrong"),
    ]
    assert reporter.count == 2


def test_an_error_is_logged_with_where_it_was_raised(caplog):
    OnceReporter(log).report("a", "a is wrong", error=ValueError("seven"))
    assert "ValueError: seven" in caplog.text


def test_as_many_objects_as_a_large_cluster_has_are_told_of_once_each():
    reporter = OnceReporter(log, logging.DEBUG)
    for _ in range(2):
        for number in range(150_000):
            reporter.report(str(number), "wrong")
    assert reporter.count == 150_000


def test_what_was_not_shown_for_the_longest_time_is_discarded_first(monkeypatch, caplog):
    monkeypatch.setattr(module, "_KEYS", 2)
    reporter = OnceReporter(log)
    for key in "abaca":
        reporter.report(key, key)
    assert [each.getMessage() for each in caplog.records] == list("abc")
    reporter.report("b", "b")
    assert reporter.count == 4
