"""The file that leads to an API server of a test, without credentials."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["write_kubeconfig"]


def write_kubeconfig(folder: Path, server: str) -> Path:
    """Write a kubeconfig for the server's URL into the folder; return its path."""
    path = folder / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": server}}
    context = {"name": "c", "context": {"cluster": "c"}}
    path.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "current-context": "c"}))
    return path
