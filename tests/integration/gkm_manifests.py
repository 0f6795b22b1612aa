"""Manifests of GKM's own, where somebody has a clone of it; nothing of theirs is in this repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

VARIABLE = "ACCELKIT_GKM_EXAMPLES"
CACHE_KINDS = {"GKMCache", "ClusterGKMCache"}
# What kustomize reads beside them is of no cluster.
_KINDS = {*CACHE_KINDS, "DaemonSet", "Namespace", "Pod"}


def read_gkm_manifests() -> list[dict[str, Any]]:
    """Return all objects in the files below the folder that is named; the test is skipped where none is."""
    if not (folder := os.environ.get(VARIABLE)):
        pytest.skip(f"{VARIABLE} does not name the examples of a clone of GKM")
    files = [path for path in sorted(Path(folder).rglob("*.yaml")) if path.name != "kustomization.yaml"]
    documents = [each for path in files for each in YAML(typ="safe", pure=True).load_all(path.read_text())]
    found = [each for each in documents if each and each.get("kind") in _KINDS]
    assert CACHE_KINDS & {each["kind"] for each in found}, f"{VARIABLE} has no caches below {folder}"
    return found
