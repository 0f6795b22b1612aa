"""Runs a play that renders templates of roles, as a user's Ansible does, with nothing but the collection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
Json = dict[str, Any]


def run_play(folder: Path, play: Mapping[str, Any], *, extra: Mapping[str, Any] | None = None, seconds: float) -> None:
    """Run a play on this machine, in a folder that stands for a home.

    Args:
        folder: an empty one, or one that this was given before.
        play: variables and tasks; the host and the interpreter are added.
        extra: variables that outrank the play's.
        seconds: how long it may take.
    """
    home = folder / "ansible_collections" / "accelkit" / "kubernetes"
    if not home.is_dir():
        home.mkdir(parents=True)
        for name in ("plugins", "meta", "roles"):
            (home / name).symlink_to(ROOT / name)
    variables = {"ansible_python_interpreter": sys.executable, **play.get("vars", {})}
    whole = {"hosts": "localhost", "connection": "local", "gather_facts": False, **play, "vars": variables}
    (folder / "play.json").write_text(json.dumps([whole]))
    command = [sys.executable, "-m", "ansible.cli.playbook", str(folder / "play.json"), "-e", json.dumps(extra or {})]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(folder),
    }
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def list_variables(*roles: str) -> list[str]:
    """Return the files of the variables that the roles have."""
    return [str(ROOT / "roles" / role / part / "main.yml") for role in roles for part in ("defaults", "vars")]


def evaluate(
    folder: Path,
    expression: str,
    cases: Mapping[str, Mapping[str, Any]],
    *,
    roles: Sequence[str] = (),
    files: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Evaluate an expression once for each case by one play; return the results by case.

    Args:
        folder: an empty one, which is made where it is absent.
        expression: what stands between braces, without them.
        cases: variables by case.
        roles: whose variables are known; templates and files of the first one are found by their names.
        files: more files of variables.
        extra: variables that outrank the others.
    """
    folder.mkdir(exist_ok=True)
    for name in ("templates", "files"):
        if roles and (ROOT / "roles" / roles[0] / name).is_dir():
            (folder / name).symlink_to(ROOT / "roles" / roles[0] / name)
    content = "{{ (" + expression + ") | to_json }}"
    tasks = [
        {"vars": given, "ansible.builtin.copy": {"content": content, "dest": str(folder / f"{case}.json")}}
        for case, given in cases.items()
    ]
    play = {"vars_files": [*list_variables(*roles), *files], "tasks": tasks}
    run_play(folder, play, extra=extra, seconds=300)
    return {case: json.loads((folder / f"{case}.json").read_text()) for case in cases}


def render(folder: Path, role: str, template: str, cases: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Json]]:
    """Render a template of a role once for each case; return the objects by case."""
    lookup = f"lookup('ansible.builtin.template', '{ROOT}/roles/{role}/templates/{template}')"
    return evaluate(folder, f"{lookup} | from_yaml_all | select", cases, roles=[role])
