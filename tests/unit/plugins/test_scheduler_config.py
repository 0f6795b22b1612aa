import hashlib
import json
import re

import pytest

TEXT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n# keep\n"
URL = "http://127.0.0.1:32766"


@pytest.fixture
def config(tmp_path):
    place = tmp_path / "etc" / "scheduler.yaml"
    place.parent.mkdir()
    place.write_text(TEXT)
    place.chmod(0o640)
    (tmp_path / "state.json").write_text(json.dumps(running(TEXT)))
    return place


def running(text):
    return {"ready": True, "config_sha256": hashlib.sha256(text.encode()).hexdigest()}


def task(config, **arguments):
    launch = {"kind": "config_file", "path": str(config), "state_path": str(config.parents[1] / "state.json")}
    defaults = {
        "launch": launch,
        "kubernetes_version": "v1.34.4",
        "timeout": 2,
        "backup_dir": str(config.parents[1] / "backup"),
        "extender": {"url_prefix": URL},
    }
    return {"accelkit.kubernetes.scheduler_config": {**defaults, **arguments}}


def restart(config):
    """What runs kube-scheduler in the embedded cluster, as one task: it takes the file as it is now."""
    script = (
        f"sum=$(sha256sum {config} | cut -d ' ' -f 1); "
        f'echo "{{\\"ready\\": true, \\"config_sha256\\": \\"$sum\\"}}" > {config.parents[1] / "state.json"}'
    )
    return {"ansible.builtin.shell": script, "changed_when": False}


def changes(done):
    """What each task reported as changed."""
    return [json.loads(each) for each in re.findall(r'"changed": (true|false)', done.stdout)]


def test_check_mode_returns_diff_without_writing(config, play):
    done = play([task(config)], "--check", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+extenders:" in done.stdout
    assert config.read_text() == TEXT
    assert not (config.parents[1] / "backup").exists()


def test_file_is_restored_when_scheduler_does_not_apply_change(config, play):
    done = play([task(config)])
    assert done.returncode != 0
    assert "kube-scheduler is not running with its configuration" in done.stdout
    assert config.read_text() == TEXT
    assert config.stat().st_mode & 0o777 == 0o640
    assert not (config.parents[1] / "backup").exists()


def test_absent_state_restores_file_changed_by_killed_run(config, play):
    # The file is switched, and whoever ran the task is gone before the scheduler was seen with it.
    switched = TEXT + f"extenders:\n- urlPrefix: {URL}\n  bindVerb: bind\n"
    config.write_text(switched)
    done = play([restart(config), {**task(config, state="verified"), "ignore_errors": True}])
    assert "kube-scheduler's configuration differs" in done.stdout
    (config.parents[1] / "state.json").write_text(json.dumps(running(TEXT)))
    done = play([task(config, state="absent"), task(config, state="absent")])
    assert done.returncode == 0, done.stdout + done.stderr
    assert changes(done) == [True, False]
    assert config.read_text() == TEXT
    assert not (config.parents[1] / "backup").exists()


def test_errors_are_one_sentence_and_change_nothing(config, play):
    foreign = TEXT + "extenders:\n- urlPrefix: http://other\n  bindVerb: bind\n"
    config.write_text(foreign)
    missing = {"launch": {"kind": "config_file", "path": str(config.with_name("none")), "state_path": "/s"}}
    tasks = [
        task(config),
        task(config, **missing),
        task(config, backup_dir=str(config.parent)),
        task(config, launch={"kind": "static_pod"}),
        task(config, kubernetes_version="thirty-four"),
    ]
    done = play([{**each, "ignore_errors": True} for each in tasks])
    assert "http://other already binds pods" in done.stdout
    assert f"cannot read {config.with_name('none')}: it does not exist" in done.stdout
    assert f"cannot use {config.parent} as backup_dir: it is the folder of" in done.stdout
    assert "cannot configure a static pod without the node's name" in done.stdout
    assert "'thirty-four' is not a valid Kubernetes version" in done.stdout
    assert config.read_text() == foreign
    assert not (config.parents[1] / "backup").exists()
