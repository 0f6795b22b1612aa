"""`make demo`: an embedded cluster, installed by the playbook, with pods that share cards.

Prints and runs the commands of a user, then exits and leaves the cluster running.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from ruamel.yaml import YAML

from accelkit.errors import AccelkitError, ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.layout import SandboxPaths, find_default_root

REPOSITORY = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PODS = "/api/v1/namespaces/default/pods"
WAIT_SECONDS = 60


def announce(text: str) -> None:
    """Announce a step."""
    print(f"\n\033[1m==> {text}\033[0m", flush=True)


def run(*command: str, **variables: str) -> None:
    """Print a command and run it; exit with its code if it fails."""
    print(f"$ {' '.join(command)}", flush=True)
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **variables}
    code = subprocess.run(command, cwd=REPOSITORY, env=environ, check=False).returncode
    if code:
        print(f"\n{command[0]} failed with {code}; `make demo-stop` cleans up.", file=sys.stderr)
        sys.exit(code)


async def create_pods(api: ApiClient, name: str) -> list[str]:
    """Create the pods of an example; an existing pod stays."""
    print(f"the pods of examples/{name}:", flush=True)
    names = []
    document = YAML(typ="safe", pure=True).load((REPOSITORY / "examples" / name).read_text())
    for pod in document.get("items", [document]):
        # All on one node, so that they share its cards.
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-1"}
        try:
            await api.post(PODS, pod)
        except ApiError as exc:
            if exc.reason != "AlreadyExists":
                raise
        names.append(pod["metadata"]["name"])
    return names


async def await_outcome(api: ApiClient, name: str) -> str:
    """Wait until a pod runs, or cannot be scheduled; return the outcome."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        pod = msgspec.json.decode(await api.get(f"{PODS}/{name}"))
        if pod["status"].get("phase") == "Running":
            containers = msgspec.json.decode(pod["metadata"]["annotations"]["sandbox.accelkit.io/containers"])
            cards = [f"{c}: {g['environment']['ACCELKIT_VISIBLE_DEVICES']}" for c, g in containers.items()]
            return f"Running on {pod['spec']['nodeName']}, cards {'; '.join(cards)}"
        if pod["status"].get("phase") == "Failed":
            return f"Failed: {pod['status'].get('message', '')}"
        for condition in pod["status"].get("conditions", ()):
            if condition.get("reason") == "Unschedulable":
                return f"Pending: {condition['message'].partition('. no new claims')[0]}"
        await asyncio.sleep(0.2)
    return f"still undecided after {WAIT_SECONDS} s"


async def create_examples(kubeconfig: Path) -> None:
    """Create the examples one after the other, and print the node of each pod."""
    async with ApiClient(load_connection(kubeconfig)) as api:
        for title, name in (
            ("Pods request 4, 8 and 20 GiB of cards of 16 GiB, and a whole card", "shared-pods.yaml"),
            ("A pod with two containers, one of them split over two cards", "two-containers.yaml"),
        ):
            announce(title)
            for pod in await create_pods(api, name):
                print(f"  {pod:<15} {await await_outcome(api, pod)}", flush=True)


def main() -> int:
    """Run the demonstration; return the exit code."""
    started = time.monotonic()
    paths = SandboxPaths(find_default_root(os.environ))
    announce("Start an embedded cluster: real control plane, three simulated nodes, two of them with cards")
    run("accelkit", "sandbox", "up")
    announce("Install accelkit on it")
    run("ansible-playbook", "site.yml", "-i", "inventories/sandbox")
    try:
        asyncio.run(create_examples(paths.build_kubeconfig_path("admin")))
    except AccelkitError as exc:
        print(f"Error: {exc}", file=sys.stderr)
        return 1
    announce("Show the shares on the cards")
    facts = paths.read_facts()
    if facts is None:
        print("Error: the cluster is gone; `make demo` starts it again", file=sys.stderr)
        return 1
    run("accelkit", "inspect", ACCELKIT_EXTENDER=facts.extender_url)
    kubectl = facts.kubectl or "kubectl"
    print(
        f"\nDone in {time.monotonic() - started:.0f} s. The cluster stays up. Next, run\n"
        f"  export PATH={BIN}:$PATH KUBECONFIG={facts.kubeconfig} ACCELKIT_EXTENDER={facts.extender_url}\n"
        f"  {kubectl} get pods -o wide\n"
        f"  {kubectl} delete pod share-8 && accelkit inspect\n"
        "  accelkit verify\n"
        "  ansible-playbook playbooks/verify.yml -i inventories/sandbox\n"
        "  ansible-playbook playbooks/remove.yml -i inventories/sandbox\n"
        "To stop it, run\n"
        "  make demo-stop"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
