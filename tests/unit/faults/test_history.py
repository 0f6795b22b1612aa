"""The history of a storm shows what led to a violation, and not what happened elsewhere."""

import pytest
from faults.checker import Violation
from faults.facts import Facts, Pod
from faults.history import History, find_log_lines

VIOLATION = Violation("assignment_differs", "node-1", pod="default/pod-1", detail="x")


@pytest.fixture
def history(tmp_path):
    history = History(tmp_path / "results" / "history.txt")
    yield history
    history.close()


def facts_of(*names):
    pods = tuple(Pod(namespace="default", name=name, uid=f"uid-{name}", containers=()) for name in names)
    return Facts(pods=pods, nodes={}, given={}, ledger=None)


def texts(history, *violations):
    return [line.split(maxsplit=1)[1] for line in history.explain(violations)]


def test_history_explains_steps_and_pods_of_violation(history):
    history.note("step 1.00 delete")
    history.follow(facts_of("pod-1", "pod-12"))
    history.note(f"does not hold: {VIOLATION}")
    history.note("does not hold: assignment_differs node=node-1 pod=default/pod-12: y")
    shown = texts(history, VIOLATION)
    assert [line.partition(" uid=")[0] for line in shown] == [
        "step 1.00 delete",
        "pod default/pod-1:",
        f"does not hold: {VIOLATION}",
    ]


def test_history_records_only_changes_of_pods(history):
    history.follow(facts_of("pod-1"))
    history.follow(facts_of("pod-1"))
    history.follow(facts_of())
    assert len(texts(history, VIOLATION)) == 2
    assert texts(history, VIOLATION)[1] == "pod default/pod-1: gone"


def test_forgotten_history_is_kept_only_in_file(history, tmp_path):
    history.note("step 1.00 delete")
    history.forget()
    assert history.explain([VIOLATION]) == []
    assert "step 1.00 delete" in (tmp_path / "results" / "history.txt").read_text()


def test_find_log_lines_returns_lines_that_name_pod(tmp_path):
    (tmp_path / "extender-a.1.log").write_text("bound pod=default/pod-1 node=n\nbound pod=default/pod-12 node=n\n")
    (tmp_path / "other.txt").write_text("bound pod=default/pod-1 node=n\n")
    assert find_log_lines(tmp_path, [VIOLATION]) == ["extender-a.1: bound pod=default/pod-1 node=n"]
    assert find_log_lines(tmp_path, [Violation("ledger_silent")]) == []
