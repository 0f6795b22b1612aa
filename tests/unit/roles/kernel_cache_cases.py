"""The objects of the role kernel_cache under several settings, rendered by one play."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rendering import ROOT, run_play

ROLE = ROOT / "roles" / "kernel_cache"
Json = dict[str, Any]


def render_cases(folder: Path, cases: Mapping[str, Json]) -> dict[tuple[str, str, str], Json]:
    """All objects by case, kind and name; `{folder}` in settings is the folder."""
    names = ("__kernel_cache_objects", "__kernel_cache_signer_policies")
    tasks = [
        {
            "vars": json.loads(json.dumps(given).replace("{folder}", str(folder))),
            "block": [
                {
                    "ansible.builtin.copy": {
                        "content": "{{ (" + " + ".join(names) + ") | to_json }}",
                        "dest": str(folder / f"{case}.json"),
                    }
                },
            ],
        }
        for case, given in cases.items()
    ]
    play = {
        "vars_files": [str(ROLE / "defaults/main.yml"), str(ROLE / "vars/main.yml")],
        "tasks": tasks,
    }
    # Templates and files are looked for beside the play.
    for name in ("templates", "files"):
        (folder / name).symlink_to(ROLE / name)
    run_play(folder, play, seconds=200)
    found = {}
    for case in cases:
        for each in json.loads((folder / f"{case}.json").read_text()):
            found[case, each["kind"], each["metadata"]["name"]] = each
    return found
