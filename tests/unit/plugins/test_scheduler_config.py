from __future__ import annotations

import json
import re

import pytest

TEXT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n# keep\n"
URL = "http://127.0.0.1:32766"


@pytest.fixture
def files(tmp_path):
    config = tmp_path / "etc" / "scheduler.yaml"
    config.parent.mkdir()
    config.write_text(TEXT)
    config.chmod(0o640)
    return config, tmp_path / "backup"


def task(files, **arguments):
    return {
        "accelkit.kubernetes.scheduler_config": {
            "path": str(files[0]),
            "backup_dir": str(files[1]),
            "extender": {"url_prefix": URL, **arguments.pop("extender", {})},
            **arguments,
        }
    }


def changes(done):
    """What each task reported as changed."""
    return [json.loads(each) for each in re.findall(r'"changed": (true|false)', done.stdout)]


def test_install_again_update_and_remove(files, play):
    config, backup = files
    update = {"extender": {"weight": 4}}
    done = play(
        [task(files), task(files), task(files, **update), task(files, state="absent"), task(files, state="absent")]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert changes(done) == [True, False, True, True, False]
    assert config.read_text() == TEXT
    assert config.stat().st_mode & 0o777 == 0o640
    assert list(backup.iterdir()) == []
    assert list(config.parent.iterdir()) == [config]


def test_check_mode_shows_the_change_and_makes_none(files, play):
    done = play([task(files)], "--check", "--diff")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+extenders:" in done.stdout
    assert files[0].read_text() == TEXT
    assert not files[1].exists()


def test_what_others_changed_stays_on_removal(files, play):
    config, backup = files
    done = play([task(files)])
    config.write_text(config.read_text() + "profiles: []\n")
    done = play([task(files, state="absent")])
    assert done.returncode == 0, done.stdout + done.stderr
    assert config.read_text() == TEXT + "profiles: []\n"
    assert list(backup.iterdir()) == []


def test_errors_are_sentences_and_change_nothing(files, play):
    config, backup = files
    foreign = TEXT + "extenders:\n- urlPrefix: http://other\n  bindVerb: bind\n"
    config.write_text(foreign)
    missing = task((config.with_name("none"), backup))
    beside = task((config, config.parent))
    done = play([{**each, "ignore_errors": True} for each in (task(files), missing, beside)])
    assert "http://other binds pods already" in done.stdout
    assert f"there is no file {config.with_name('none')}" in done.stdout
    assert f"backup_dir {config.parent} is the folder of" in done.stdout
    assert config.read_text() == foreign
    assert not backup.exists()
