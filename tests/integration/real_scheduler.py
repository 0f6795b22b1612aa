"""A kube-scheduler of a test's own, beside that of the sandbox, for the pods that name it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ports import free_port

from accelkit.sandbox.binaries import find_binaries, find_cache_dir


def find_program() -> str:
    return str(find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=print).kube_scheduler)


def build_configuration(name: str, kubeconfig: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a scheduler of this name with one extender."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": name}],
        "extenders": [entry],
    }


@contextlib.contextmanager
def run_scheduler(config: dict[str, Any], folder: Path) -> Iterator[Path]:
    """Run kube-scheduler with this configuration; yields its log."""
    file, log = folder / "config.json", folder / "kube-scheduler.log"
    file.write_text(json.dumps(config))
    arguments = [f"--config={file}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", "--v=3"]
    with log.open("wb") as out:
        process = subprocess.Popen([find_program(), *arguments], stdout=out, stderr=out)
    try:
        yield log
    finally:
        process.kill()
        process.wait()
