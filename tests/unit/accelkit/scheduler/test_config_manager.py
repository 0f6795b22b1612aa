import hashlib
import json
import time
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from accelkit.cli import main
from accelkit.scheduler.switch import waiters

TEXT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def root(tmp_path):
    """A host whose kube-scheduler is run by something that says so in a file."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/scheduler.yaml").write_text(TEXT)
    runs_with(tmp_path, TEXT)
    return tmp_path


def runs_with(root, text):
    state = {"ready": True, "config_sha256": hashlib.sha256(text.encode()).hexdigest()}
    (root / "state.json").write_text(json.dumps(state))


def spec(**fields):
    launch = {"kind": "config_file", "path": "/etc/scheduler.yaml", "state_path": "/state.json"}
    extender = {"url_prefix": "http://127.0.0.1:32766"}
    return {"launch": launch, "kubernetes_version": "v1.34.4", "timeout": 0, "extender": extender, **fields}


def run(root, action, given):
    text = given if isinstance(given, str) else json.dumps(given)
    done = CliRunner().invoke(main, ["config-manager", action, "--spec", "-", "--root", str(root)], input=text)
    return done.exit_code, json.loads(done.stdout)


def test_compare_reports_changes_without_applying_them(root):
    code, result = run(root, "compare", spec())
    assert (code, result["changed"], result["diff"][0]["after_header"]) == (0, True, "/etc/scheduler.yaml")
    assert "urlPrefix" in result["diff"][0]["after"]
    assert run(root, "compare-removal", spec())[1]["changed"] is False
    assert (root / "etc/scheduler.yaml").read_text() == TEXT


@pytest.fixture
def runner(root, monkeypatch):
    """Whoever runs kube-scheduler takes the file as it is while the program waits; returns what it was run with."""
    taken = []

    def sleep(_seconds):
        taken.append((root / "etc/scheduler.yaml").read_text())
        runs_with(root, taken[-1])

    monkeypatch.setattr(waiters, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    return taken


def test_scheduler_is_switched_checked_and_restored(root, runner):
    waits = spec(timeout=60)
    after = run(root, "compare", waits)[1]["diff"][0]["after"]
    code, result = run(root, "apply", waits)
    assert (code, result["changed"], result["diff"][0]["after"]) == (0, True, after)
    assert (root / "etc/scheduler.yaml").read_text() == after != TEXT
    assert run(root, "apply", waits) == (0, {"changed": False, "restored": True, "problems": [], "diff": []})
    assert run(root, "check", waits)[0] == 0
    code, result = run(root, "remove", waits)
    assert (code, result["changed"]) == (0, True)
    assert (root / "etc/scheduler.yaml").read_text() == TEXT
    assert runner == [after, TEXT]
    assert not (root / "var").exists()


def test_file_is_restored_when_scheduler_does_not_become_ready(root):
    code, result = run(root, "apply", spec())
    assert (code, result["failed"]) == (1, True)
    assert "the former state was restored" in result["msg"]
    assert (root / "etc/scheduler.yaml").read_text() == TEXT
    assert not (root / "var").exists()


def test_error_is_returned_as_message_in_result(root):
    (root / "state.json").write_text("{}")
    assert "kube-scheduler is not ready" in run(root, "apply", spec())[1]["msg"]
    for given, words in (
        ("{", "not JSON"),
        (spec(nodes=[]), "unknown field `nodes`"),
        (spec(launch={"kind": "systemd"}), "cannot restart systemd from a pod"),
        (spec(launch={"kind": "static_pod"}), "cannot configure a static pod without the node's name"),
        (spec(kubernetes_version=""), "cannot configure kube-scheduler without"),
    ):
        code, result = run(root, "apply", given)
        assert (code, result["failed"]) == (1, True)
        assert words in result["msg"]
    assert (root / "etc/scheduler.yaml").read_text() == TEXT
