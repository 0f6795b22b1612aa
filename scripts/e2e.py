"""Install the whole product on a kind cluster and remove it again, by molecule.

    e2e.py [default | kernel_cache]

`make e2e` runs the first scenario, `make e2e-kernel-cache` the second, which needs cosign and a registry besides,
without TLS: `TESTBED_REGISTRY` names it, localhost:5001 without it.

What molecule needs is checked first, so that a missing program is one sentence and not a failed task.
`KIND_NODE_IMAGE` names the image of the nodes (kind's own default without it), `DOCKER_HOST` the Docker daemon, and
`ACCELKIT_BASE_IMAGE` the base of our image, which is otherwise pulled or, where that fails, made of Debian packages.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PROBE_SECONDS = 30
PULL_SECONDS = 300
MOST_LINES = 40
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
CACHES = "kernel_cache"
REGISTRY = "localhost:5001"
BASE = "docker.io/library/python:3.13-slim"


def main() -> int:
    """Run molecule where it can work; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", nargs="?", choices=("default", CACHES), default="default")
    scenario = parser.parse_args().scenario
    problem = find_problem() or (find_problem_of_caches() if scenario == CACHES else None)
    if problem is not None:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    base = find_base_image()
    if base is None:
        problem = "there is no base image, for the reason above; another one is named in ACCELKIT_BASE_IMAGE"
        print(f"error: {problem}", file=sys.stderr)
        return 1
    environment = {
        **os.environ,
        "ACCELKIT_BASE_IMAGE": base,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
    }
    command = ["molecule", "test", "--scenario-name", scenario]
    status, failed = run_and_report(command, environment)
    if status:
        print("\nWhat failed:", *(failed or ["no task did"]), sep="\n", flush=True)
    return status


def run_and_report(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, list[str]]:
    """Run molecule and print its output.

    Returns:
        Its exit status, and the output of the last task that failed. Molecule ends with the removal of the cluster and
        a recap, so a truncated output would not contain the cause of a failure.
    """
    task: list[str] = []
    failed: list[str] = []
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            words = COLOUR.sub("", line).strip(" │\n")
            if words.startswith(("TASK [", "PLAY ")):
                task = []
            task.append(words)
            if words.startswith(("fatal: ", "failed: ")):
                failed = task
    # What Ansible prints of a program's output a second time, line by line, says nothing new.
    failures = list(takewhile(lambda words: not words.startswith("stdout_lines:"), failed))
    return process.returncode, failures[-MOST_LINES:]


def find_problem() -> str | None:
    """Return what keeps molecule from working here and what to do about it; None where nothing does."""
    for tool, advice in {
        "docker": "install it by `make programs`, or put its client on PATH and name the daemon in DOCKER_HOST",
        "kind": "install kind from https://kind.sigs.k8s.io and put it on PATH",
        "kubectl": "install kubectl and put it on PATH",
    }.items():
        if shutil.which(tool) is None:
            return f"{tool} is not on PATH; {advice}"
    daemon = os.environ.get("DOCKER_HOST", "its default socket")
    if not succeeds("docker", "info"):
        return f"no Docker daemon answers at {daemon}; start it, or name another one in DOCKER_HOST"
    image = os.environ.get("KIND_NODE_IMAGE")
    if (
        image
        and not succeeds("docker", "image", "inspect", image)
        and not succeeds("docker", "manifest", "inspect", image)
    ):
        return (
            f"KIND_NODE_IMAGE is {image}, which Docker neither has nor finds; load it, or unset it for kind's default"
        )
    return None


def find_problem_of_caches() -> str | None:
    """Return what keeps the examples' images from being made; None where nothing does."""
    if shutil.which("cosign") is None:
        return "cosign is not on PATH, and the images of the examples are signed by it; install it from its releases"
    registry = os.environ.get("TESTBED_REGISTRY", REGISTRY)
    try:
        with urllib.request.urlopen(f"http://{registry}/v2/", timeout=PROBE_SECONDS):
            return None
    except (OSError, ValueError) as exc:
        start = "docker run --detach --publish 5001:5000 registry:2"
        return f"no registry answers at {registry} ({exc}); start one, as by `{start}`, or name it in TESTBED_REGISTRY"


def find_base_image() -> str | None:
    """Return the name of a base image that Docker has, pulled or built where needed; None where that fails."""
    if named := os.environ.get("ACCELKIT_BASE_IMAGE"):
        return named
    if succeeds("docker", "image", "inspect", BASE) or succeeds("docker", "pull", BASE, seconds=PULL_SECONDS):
        return BASE
    built = subprocess.run(
        [sys.executable, REPOSITORY / "scripts" / "base_image.py"], stdout=subprocess.PIPE, text=True, check=False
    )
    return built.stdout.splitlines()[-1] if built.returncode == 0 else None


def succeeds(*command: str, seconds: float = PROBE_SECONDS) -> bool:
    """Return whether a command succeeds in time."""
    try:
        return subprocess.run(command, capture_output=True, timeout=seconds, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


if __name__ == "__main__":
    sys.exit(main())
