"""Each role as its README says how it is used alone: on a host of its own, with nothing that other roles left there."""

from __future__ import annotations

import json
import re

import pytest
from conftest import REPOSITORY, ansible_playbook
from ruamel.yaml import YAML

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

yaml = YAML(typ="safe", pure=True)
READMES = {path.parent.name: path.read_text() for path in REPOSITORY.glob("roles/*/README.md")}
ROLES = {name: text for name, text in READMES.items() if "internal to the collection" not in text}


def read_play(role: str) -> dict:
    """Return the play that a README shows, or one of the tasks that it shows."""
    shown = yaml.load(
        re.search(r"^To use this role on its own, .*?```yaml\n(.*?)```", ROLES[role], re.MULTILINE | re.DOTALL)[1]
    )
    return shown[0] if "hosts" in shown[0] else {"hosts": role, "gather_facts": False, "tasks": shown}


async def test_each_role_runs_alone_as_documented_in_readme(control_plane, cache_kinds, tmp_path):
    """In check mode, on a cluster with nothing installed."""
    await cache_kinds.forget()
    plays = [read_play(role) for role in sorted(ROLES)]
    (tmp_path / "play.json").write_text(json.dumps(plays))
    facts = control_plane.facts
    launch = {"kind": "config_file", "path": facts.scheduler_config, "state_path": facts.scheduler_state}
    inventory = {
        "all": {
            "hosts": {role: {} for role in ROLES},
            "children": {"control_plane": {"hosts": {"scheduler": {"scheduler_launch": launch}}}},
            "vars": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        }
    }
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))
    arguments = (tmp_path / "play.json", "-i", tmp_path / "hosts.json", "--check")
    done = ansible_playbook(*arguments, environ=control_plane.environ, seconds=400)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    recap = dict(re.findall(r"^(\w+) +: ok=(\d+)", said, re.MULTILINE))
    assert recap.keys() == ROLES.keys()
    assert all(int(number) > 0 for number in recap.values())
