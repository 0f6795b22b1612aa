"""Runs of site.yml that are killed in a task, refused because of another run, or fail."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from faults import playbooks
from faults.playbooks import LOCKED, Playbook, Round

TWO_TASKS = "echo 'TASK [first] ***'; echo 'ok: [a]'; echo 'TASK [role : second] ***'; sleep 60"


def run_shell(script: str, folder: Path) -> Playbook:
    return Playbook(["/bin/sh", "-c", script], folder / "run.log")


def test_playbook_run_is_killed_in_given_task(tmp_path):
    playbook = run_shell(TWO_TASKS, tmp_path)
    assert playbook.kill_in_task(2, 0.1) == "killed in task 2: role : second"
    assert playbook.wait() < 0


def test_playbook_run_that_exits_before_given_task_is_not_killed(tmp_path):
    assert run_shell("echo 'TASK [only] ***'; exit 4", tmp_path).kill_in_task(9, 60) == "ended with 4 before task 9"


@pytest.mark.parametrize(
    ("scripts", "wrong"),
    [
        ([f"echo 'admin {LOCKED} noon'; exit 2", "exit 0"], 0),
        (["exit 2"], 1),
    ],
)
def test_round_repeats_only_run_rejected_by_lock(tmp_path, monkeypatch, scripts, wrong):
    remaining = iter(scripts)
    this = Round(SimpleNamespace(), SimpleNamespace(), tmp_path)
    monkeypatch.setattr(Round, "_start", lambda _self, _settings: run_shell(next(remaining), tmp_path))
    this._finish({})
    assert len(this.wrong) == wrong
    assert next(remaining, None) is None


def test_playbook_run_is_killed_after_timeout(tmp_path, monkeypatch):
    monkeypatch.setattr(playbooks, "PLAYBOOK_SECONDS", 0.1)
    playbook = run_shell("sleep 60", tmp_path)
    with pytest.raises(playbooks.UnreadableError, match="did not end"):
        playbook.wait()
