"""A hundred pods of equal size at once on two nodes, while their kubelets and node agents restart; then an audit.

Molecule runs it on kind (KUBECONFIG, ACCELKIT_KIND_CLUSTER). What the kubelets allocate is watched throughout: no
card may hold more devices than it has at any moment. At the end `accelkit audit` compares the leading extender's
ledger, the pods' assignments, the kubelets and the cards, and must find nothing.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

PODS = 100
UNITS = 2
DEADLINE_SECONDS = 480
AUDIT_SECONDS = 60
CLUSTER = os.environ.get("ACCELKIT_KIND_CLUSTER", "")
WORKERS = (f"{CLUSTER}-worker", f"{CLUSTER}-worker2")
CHECK = Path(__file__).resolve().parent.parent / "tests/faults/check_cluster.py"
CREDENTIALS = "/etc/kubernetes/accelkit"
AGENT = "app.kubernetes.io/name=accelkit-node-agent"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "crowd", "namespace": "default"},
    "spec": {
        "replicas": PODS,
        # A pod that its kubelet refuses while its plugin restarts is made anew.
        "progressDeadlineSeconds": DEADLINE_SECONDS,
        "selector": {"matchLabels": {"app": "crowd"}},
        "template": {
            "metadata": {"labels": {"app": "crowd"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox",
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["sleep", "100000"],
                        "resources": {"limits": {"accelkit.io/memory": str(UNITS)}},
                    }
                ],
            },
        },
    },
}


def main() -> int:
    """Run it; return the exit status."""
    kubectl("apply", "-f", "-", stdin=json.dumps(DEPLOYMENT))
    restarts = [(4, 0), (12, 1)]
    began, looks, most = time.monotonic(), 0, Counter[str]()
    while True:
        elapsed = time.monotonic() - began
        while restarts and elapsed >= restarts[0][0]:
            restart(WORKERS[restarts.pop(0)[1]])
        for card, (held, capacity) in count_devices().items():
            most[card] = max(most[card], held)
            if held > capacity:
                sys.exit(f"{card} holds {held} devices and has {capacity}")
        looks += 1
        ready = int(kubectl("get", "deployment", "crowd", "-o", "jsonpath={.status.readyReplicas}") or 0)
        if ready == PODS and not restarts:
            break
        if elapsed > DEADLINE_SECONDS:
            print(kubectl("get", "pods", "-o", "wide"))
            sys.exit(f"{ready} of {PODS} pods run after {DEADLINE_SECONDS} s")
        time.sleep(0.5)
    print(f"{PODS} pods run after {time.monotonic() - began:.0f} s; no card held too much in {looks} looks")
    print("most devices held at once:", ", ".join(f"{card} {count}" for card, count in sorted(most.items())))
    kubectl("wait", "--for=condition=Ready", "pod", "-l", AGENT, "-n", "accelkit", "--timeout=120s")
    print(f"{count_corrections()} assignments were corrected on the way")
    status = audit() or check()
    kubectl("delete", "deployment", "crowd", "--wait")
    kubectl("delete", "pods", "-l", "app=crowd", "--wait", "--ignore-not-found")
    return status


def restart(node: str) -> None:
    """Restart a node's kubelet, and delete its agent."""
    print(f"restarting the kubelet and the node agent of {node}", flush=True)
    run("docker", "exec", node, "systemctl", "restart", "kubelet")
    kubectl("delete", "pod", "-n", "accelkit", "-l", AGENT, "--field-selector", f"spec.nodeName={node}", "--wait=false")


def count_devices() -> dict[str, tuple[int, int]]:
    """Return how many devices are held and how many there are, by node and card, as the kubelets show them."""
    capacity: dict[str, int] = {}
    for node in json.loads(kubectl("get", "nodes", "-o", "json"))["items"]:
        inventory = json.loads(node["metadata"].get("annotations", {}).get("accelkit.io/inventory", '{"cards": []}'))
        for card in inventory["cards"]:
            amount = card["memory_bytes"] - card.get("reserved_bytes", 0)
            capacity[f"{node['metadata']['name']}/{card['id']}"] = amount // inventory["unit_bytes"]
    held = Counter[str]()
    maps = kubectl("get", "configmaps", "-n", "accelkit", "-l", "app.kubernetes.io/component=allocations", "-o", "json")
    for each in json.loads(maps)["items"]:
        for pod in json.loads(each["data"]["allocations.json"])["pods"]:
            for container in pod["containers"].values():
                for card, count in container.get("memory", {}).items():
                    held[f"{each['metadata']['name']}/{card}"] += count
    return {card: (held[card], count) for card, count in capacity.items()}


def count_corrections() -> int:
    """Return how many corrections the cluster's events report."""
    events = json.loads(kubectl("get", "events", "-o", "json", "--field-selector", "reason=AssignmentCorrected"))
    return len(events["items"])


def audit() -> int:
    """Compare all sides, the leading extender's ledger by a forwarded port; return the exit status."""
    leader = kubectl("get", "lease", "-n", "accelkit", "accelkit-extender", "-o", "jsonpath={.spec.holderIdentity}")
    with tempfile.TemporaryDirectory() as folder:
        sources = {"ca.crt": "extender-ca-*.crt", "client.crt": "client.crt", "client.key": "client.key"}
        for name, source in sources.items():
            copied = run("docker", "exec", f"{CLUSTER}-control-plane", "sh", "-c", f"cat {CREDENTIALS}/{source}")
            Path(folder, name).write_text(copied)
        forward = subprocess.Popen(
            ["kubectl", "port-forward", "-n", "accelkit", f"pod/{leader}", ":32766"], stdout=subprocess.PIPE, text=True
        )
        try:
            line = forward.stdout.readline() if forward.stdout else ""
            port = re.search(r":(\d+) ->", line)
            if port is None:
                sys.exit(f"the extender's port cannot be forwarded: {line}")
            files = [("--ca", "ca.crt"), ("--cert", "client.crt"), ("--key", "client.key")]
            command = [
                *(sys.executable, "-m", "accelkit", "audit", "--wait", str(AUDIT_SECONDS)),
                *("--extender", f"https://127.0.0.1:{port[1]}", "--server-name", "accelkit-extender.accelkit.svc"),
                *(word for option, name in files for word in (option, f"{folder}/{name}")),
            ]
            return subprocess.run(command, check=False, timeout=4 * AUDIT_SECONDS).returncode
        finally:
            forward.terminate()
            forward.wait(10)


def check() -> int:
    """Compare all sides once more, by a checker that shares no code with accelkit; return the exit status."""
    command = [sys.executable, str(CHECK), "--kubeconfig", os.environ["KUBECONFIG"]]
    return subprocess.run(command, check=False, timeout=4 * AUDIT_SECONDS).returncode


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Return what kubectl prints."""
    return run("kubectl", *arguments, stdin=stdin)


def run(*command: str, stdin: str | None = None) -> str:
    """Return what a command prints; exit with its error where it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=180)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
