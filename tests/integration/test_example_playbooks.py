"""The playbooks in examples/playbooks, as their first lines say how they are run."""

import json
import re
import subprocess
import sys

import pytest
from conftest import REPOSITORY, ansible_playbook
from ruamel.yaml import YAML

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

load = YAML(typ="safe", pure=True).load
EXAMPLES = REPOSITORY / "examples" / "playbooks"


def play(sandbox, *arguments):
    return ansible_playbook(*arguments, environ=sandbox.environ, seconds=200)


def find_calls(plays):
    """Return the modules that tasks call and the options that they give them."""
    for task in (task for each in plays for task in each["tasks"]):
        for module, given in task.items():
            if module.startswith("accelkit.kubernetes."):
                yield module, given or {}


def test_each_example_passes_syntax_check(control_plane):
    files = sorted(EXAMPLES.glob("*.yml"))
    done = play(control_plane, "--syntax-check", *files)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^playbook: ", done.stdout, re.MULTILINE)) == len(files) > 1


def test_each_example_uses_only_documented_module_options():
    """Also of those that run only where there is a registry."""
    tasks = [(module, set(given)) for file in EXAMPLES.glob("*.yml") for module, given in find_calls(load(file))]
    command = [sys.executable, "-m", "ansible", "doc", "--json", *sorted({module for module, _ in tasks})]
    documented = json.loads(subprocess.run(command, cwd=REPOSITORY, capture_output=True, timeout=60, check=True).stdout)
    assert len(tasks) > 1
    assert [(module, given - documented[module]["doc"]["options"].keys()) for module, given in tasks] == [
        (module, set()) for module, _ in tasks
    ]


@pytest.mark.long
def test_read_only_examples_report_cluster_state(installed):
    done = play(installed, EXAMPLES / "inspect.yml")
    assert done.returncode == 0, done.stdout
    assert re.search(r"msg: 'node-1: [\d.]+ GB free'", done.stdout), done.stdout
    done = play(installed, EXAMPLES / "inspect.yml", "-e", "min_free=4TiB")
    assert done.returncode != 0
    done = play(installed, EXAMPLES / "unit.yml", "-e", "unit=256MiB")
    assert done.returncode == 0, done.stdout
    assert "nodes that apply the unit immediately" in done.stdout


@pytest.mark.extended
def test_roles_example_runs_in_check_mode(control_plane):
    given = {"image": "registry.example.org/accelkit:1", "nodes": ["node-1"]}
    done = play(control_plane, EXAMPLES / "roles.yml", "--check", "-e", json.dumps(given))
    assert done.returncode == 0, done.stdout
    assert re.search(r"^localhost +: ok=\d+ +changed=[1-9]", done.stdout, re.MULTILINE), done.stdout
