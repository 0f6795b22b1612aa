"""A clone in which only pip has run, as an AWX project is one: no make, no Galaxy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY

pytestmark = pytest.mark.integration

DEADLINE = 120
OURS = "accelkit.kubernetes"


class Clone:
    """The tracked files as they are now, and an environment with what `pip install '.[ansible]'` brings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.folder.mkdir()
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True).stdout
        pack = ["tar", "--create", "--null", "--files-from=-"]
        packed = subprocess.run(pack, cwd=REPOSITORY, input=tracked, check=True, capture_output=True).stdout
        subprocess.run(["tar", "--extract"], cwd=self.folder, input=packed, check=True)
        # Where the wheel `ansible` has kubernetes.core, and up to release 13 awx.awx: on the Python path.
        site = folder / "site" / "ansible_collections"
        site.mkdir(parents=True)
        for namespace in ("kubernetes", "awx"):
            (site / namespace).symlink_to(REPOSITORY / "collections" / "ansible_collections" / namespace)
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": str(site.parent),
            "LC_ALL": "C.UTF-8",
        }

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of Ansible's in the clone; return what it prints."""
        command = [sys.executable, "-m", "ansible", program, *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self._environ, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def describe(self, kind: str, *names: str) -> dict:
        """Return the documentation of plugins, by name."""
        return json.loads(self.run("doc", "--json", "--type", kind, *names))


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    return Clone(tmp_path_factory.mktemp("clone"))


def test_each_playbook_passes_syntax_check(clone):
    playbooks = ["site.yml", *sorted(f"playbooks/{each.name}" for each in (clone.folder / "playbooks").glob("*.yml"))]
    printed = clone.run("playbook", "--syntax-check", "-i", "inventories/sample", *playbooks)
    assert re.findall(r"^playbook: (\S+)", printed, re.MULTILINE) == playbooks


@pytest.mark.parametrize(
    ("kind", "folder"), [("module", "modules"), ("filter", "filter"), ("inventory", "inventory"), ("lookup", "lookup")]
)
def test_each_accelkit_plugin_is_found_in_clone(clone, kind, folder):
    names = sorted(f"{OURS}.{each.stem}" for each in (clone.folder / "plugins" / folder).glob("[!_]*.py"))
    found = clone.describe(kind, *names)
    assert sorted(found) == names
    for each in found.values():
        assert Path(each["doc"]["filename"]).resolve().is_relative_to(clone.folder.resolve())


def test_each_kubernetes_core_module_of_tasks_is_found(clone):
    """Also those of tasks that are included while a play runs."""
    name = re.compile(r"\bkubernetes\.core\.\w+")
    files = [file for folder in ("playbooks", "roles") for file in (clone.folder / folder).rglob("*.yml")]
    used = sorted({found for file in files for found in name.findall(file.read_text())})
    assert len(used) > 1
    assert sorted(clone.describe("module", *used)) == used


def test_collections_folder_has_requirements_for_awx(clone):
    assert (clone.folder / "collections" / "requirements.yml").read_text() == (
        clone.folder / "requirements.yml"
    ).read_text()
