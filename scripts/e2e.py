"""Bring the whole product up on a real kind cluster and take it away again, by molecule; `make e2e` runs it.

What molecule needs of this machine is looked at first, so that a missing piece is one sentence and not a failed task.
`KIND_NODE_IMAGE` names the image of the nodes (kind's own default without it), `DOCKER_HOST` the Docker daemon.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PROBE_SECONDS = 30


def main() -> int:
    """Run molecule where it can work; return the exit status."""
    problem = missing()
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / ".cache" / "collections"),
    }
    return subprocess.run(["molecule", "test"], cwd=REPOSITORY, env=environment, check=False).returncode


def missing() -> str:
    """Return what keeps molecule from working here and what to do about it; empty where nothing does."""
    for tool, advice in {
        "docker": "install Docker, or put its client on PATH and name the daemon in DOCKER_HOST",
        "kind": "install kind from https://kind.sigs.k8s.io and put it on PATH",
        "kubectl": "install kubectl and put it on PATH",
    }.items():
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH; {advice}"
    daemon = os.environ.get("DOCKER_HOST", "its default socket")
    if not answers("docker", "info"):
        return f"no Docker daemon answers at {daemon}; start it, or name another one in DOCKER_HOST"
    image = os.environ.get("KIND_NODE_IMAGE")
    if (
        image
        and not answers("docker", "image", "inspect", image)
        and not answers("docker", "manifest", "inspect", image)
    ):
        return (
            f"KIND_NODE_IMAGE is {image}, which Docker neither has nor finds; load it, or unset it for kind's default"
        )
    return ""


def answers(*command: str) -> bool:
    """Return whether a command succeeds in time."""
    try:
        return subprocess.run(command, capture_output=True, timeout=PROBE_SECONDS, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


if __name__ == "__main__":
    sys.exit(main())
