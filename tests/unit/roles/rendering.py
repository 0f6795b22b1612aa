"""Runs a play that renders templates of roles, as a user's Ansible does, with nothing but the collection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


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
