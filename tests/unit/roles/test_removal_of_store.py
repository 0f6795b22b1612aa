"""What playbooks/remove.yml does to the caches of a node, which nobody can delete while they are immutable."""

import os
import subprocess

import pytest
from rendering import ROOT
from support.yaml import read_yaml


@pytest.fixture(scope="module")
def command():
    """The command on each node, with variables of the shell in the place of Ansible's."""
    plays = read_yaml(ROOT / "playbooks/remove.yml")
    (task,) = [each for play in plays for each in play.get("tasks", []) if each["name"] == "Delete the kernel caches"]
    raw = task["ansible.builtin.raw"]
    return raw.replace("{{ folder | dirname }}", "$(dirname $folder)").replace("{{ folder }}", "$folder")


@pytest.mark.parametrize("status", [0, 1])
def test_cache_store_is_made_mutable_before_deletion(command, tmp_path, status):
    folder = tmp_path / "accelkit" / "kernel-caches"
    (folder / "cache").mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    # Not every file system knows such files.
    (programs / "chattr").write_text(f'#!/bin/sh\necho "$@"\nls $4\nexit {status}\n')
    (programs / "chattr").chmod(0o755)
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "folder": str(folder)}

    def run():
        ran = subprocess.run(["sh", "-c", command], env=environ, stdout=subprocess.PIPE, timeout=60, check=True)
        return ran.stdout.decode().split()

    assert run() == ["-R", "-f", "-i", str(folder), "cache", "deleted"]
    assert not folder.parent.exists()
    assert run() == []
