"""The objects of the role kernel_cache under several settings, rendered by one play."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rendering import ROOT, Json, evaluate

ROLE = ROOT / "roles" / "kernel_cache"


def render_cases(folder: Path, cases: Mapping[str, Json]) -> dict[tuple[str, str, str], Json]:
    """All objects by case, kind and name; `{folder}` in settings is the folder."""
    given = json.loads(json.dumps(cases).replace("{folder}", str(folder)))
    found = evaluate(folder, "__kernel_cache_objects + __kernel_cache_signer_policies", given, roles=["kernel_cache"])
    return {(case, each["kind"], each["metadata"]["name"]): each for case in cases for each in found[case]}
