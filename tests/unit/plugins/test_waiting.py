"""What a person sees while a task waits: the action plugins that call modules in slices, and their messages."""

from __future__ import annotations

import pytest
from ansible_collections.accelkit.kubernetes.plugins.action import (
    node_discover,
    node_share,
    object_prune,
    rollout_wait,
    stage_check,
)
from ansible_collections.accelkit.kubernetes.plugins.plugin_utils import _waiting

WAITING = {
    "failed": True,
    "msg": "after 15 s no",
    "waiting_for": "3 of 5 nodes: a, b, c",
    "sentence": "no; look there",
    "exception": "after 1 s",
}

# Of `node_share`, which looks at no node where it does not wait.
NOT_WAITED = {"changed": False, "nodes": ["a", "b"]}


class Task:
    def __init__(self, arguments):
        self.args, self.async_val, self.check_mode = arguments, 0, False


class Clock:
    now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_waiting, "time", clock)
    return clock


@pytest.fixture
def shown(monkeypatch):
    """What is displayed."""
    lines: list[str] = []
    monkeypatch.setattr(_waiting.display, "display", lines.append)
    return lines


@pytest.fixture
def run(clock, monkeypatch):
    """Run an action whose module answers this; return with how it was called."""

    def perform(plugin, arguments, *answers):
        action = plugin.ActionModule.__new__(plugin.ActionModule)
        action._task, action._connection, calls, left = Task(arguments), None, [], list(answers)

        def execute(module_args=None, task_vars=None):
            given = arguments if module_args is None else module_args
            calls.append(given)
            clock.now += given.get("wait_seconds") or given.get("timeout") or 0
            return left.pop(0) if len(left) > 1 else left[0]

        action._execute_module = execute
        monkeypatch.setattr(_waiting.ActionBase, "run", lambda *_: {})
        return action.run(task_vars={"inventory_hostname": "host"}), calls

    return perform


def test_completed_module_is_called_once_without_waiting(run, shown):
    done, calls = run(rollout_wait, {"timeout": 300, "name": "n"}, {"changed": False, "pods": 3})
    assert (done, calls, shown) == ({"changed": False, "pods": 3}, [{"timeout": 0, "name": "n"}], [])


def test_wait_is_split_into_slices(run):
    done, calls = run(rollout_wait, {"timeout": "40"}, WAITING, WAITING, WAITING, {"pods": 3})
    assert done == {"pods": 3}
    assert [each["timeout"] for each in calls] == [0, 15, 15, 10]


def test_expired_wait_fails_with_total_time_and_reason(run):
    done, calls = run(node_share, {"wait_seconds": 40}, NOT_WAITED, WAITING)
    assert (done["failed"], done["msg"], "exception" in done) == (True, "after 40 s no; look there", False)
    assert [each["wait_seconds"] for each in calls] == [0, 15, 15, 10]


def test_module_error_ends_wait_immediately(run):
    done, calls = run(node_share, {"wait_seconds": 40}, NOT_WAITED, WAITING, {"failed": True, "msg": "forbidden"})
    assert (done["msg"], len(calls)) == ("forbidden", 3)
    done, calls = run(node_share, {"wait_seconds": 40}, {"failed": True, "msg": "forbidden"})
    assert (done["msg"], len(calls)) == ("forbidden", 1)


def test_nodes_are_checked_after_first_call_without_wait(run):
    done, calls = run(node_share, {"wait_seconds": 40}, NOT_WAITED, {"failed": True, "msg": "node b offers nothing"})
    assert (done["msg"], [each["wait_seconds"] for each in calls]) == ("node b offers nothing", [0, 15])


def test_change_of_first_call_is_returned_by_last_call(run):
    labelled = {"changed": True, "before": {"a": {}}, "after": {"a": 1}, "diff": {}, "nodes": ["a"]}
    done, _calls = run(node_share, {"wait_seconds": 40}, labelled, WAITING, {"changed": False, "nodes": ["a", "b"]})
    assert done == {**labelled, "nodes": ["a", "b"]}


@pytest.mark.parametrize(
    ("plugin", "arguments"),
    [
        (node_share, {"state": "present"}),
        (node_share, {"state": "absent", "wait_seconds": 9}),
        (stage_check, {"timeout": 120}),
        (node_discover, {}),
        (object_prune, {}),
    ],
)
def test_modules_without_wait_are_called_once_with_unchanged_arguments(run, plugin, arguments):
    _done, calls = run(plugin, arguments, WAITING)
    assert calls == [arguments]


def test_progress_contains_reason_and_elapsed_time(shown, monkeypatch):
    monkeypatch.setattr(_waiting, "REPORT_SECONDS", 0.01)
    clock = Clock()
    monkeypatch.setattr(_waiting, "time", clock)
    with _waiting.Progress("host", "the rollout", 300) as progress:
        progress.waiting, clock.now = "3 of 5 nodes: a, b, c", 40.0
        # The thread shows again and again, and ends with the block.
        while not any("(40 s of 300 s)" in line for line in list(shown)):
            progress._thread.join(0.01)
    assert shown[-1] == "[host] waiting for 3 of 5 nodes: a, b, c (40 s of 300 s)"
    assert not progress._thread.is_alive()
