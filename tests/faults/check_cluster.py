"""Check the accounts of a cluster on which accelkit runs, at the end of a test.

    python tests/faults/check_cluster.py --kubeconfig FILE                 # a cluster made by kind
    python tests/faults/check_cluster.py --kubeconfig FILE --audit         # and whether `accelkit audit` agrees

Kubelets are not asked: their checkpoints are read, by `docker exec` into the containers that are the nodes. The exit
status is 1 where an invariant is violated for longer than it may be, 2 where something cannot be read.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.checker import Judge, Violation, check
from faults.reading import HttpsSource, Reader, UnreadableError, open_api

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
INSPECTOR = "accelkit-inspector"
AUDIENCE = "accelkit.io/inspect"
TOKEN_HEADER = "X-Accelkit-Token"  # noqa: S105 - a name
# Findings of the audit that are no wrong accounts.
BESIDE_THE_POINT = frozenset({"unhealthy_card_in_use", "constraint_broken", "strange_process", "topology_policy"})
UNREADABLE_SECONDS = 60.0


def read_kind_checkpoint(node: str) -> bytes:
    """Return the checkpoint of the kubelet in a container."""
    command = ["docker", "exec", node, "cat", CHECKPOINT]
    done = subprocess.run(command, capture_output=True, check=False, timeout=30)
    if done.returncode:
        raise UnreadableError(f"{CHECKPOINT} of {node}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def open_ledger(api: HttpsSource, namespace: str, service: str) -> Callable[[], Mapping[str, Any]]:
    """Return what asks the extender through the API server, as a reader of the cluster does."""

    def ask() -> Mapping[str, Any]:
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{INSPECTOR}/token"
        made = api.ask("POST", account, {"spec": {"audiences": [AUDIENCE], "expirationSeconds": 600}})
        path = f"/api/v1/namespaces/{namespace}/services/https:{service}:read/proxy/inspect"
        answer: Mapping[str, Any] = api.ask("GET", path, headers={TOKEN_HEADER: made["status"]["token"]})
        return answer

    return ask


def find_overdue(reader: Reader) -> tuple[list[Violation], int]:
    """Look until everything holds twice in a row, or something does not for too long.

    Raises:
        UnreadableError: something could not be read for a minute.
    """
    judge, began, clean = Judge(), time.monotonic(), 0
    read_at = began
    while True:
        try:
            facts = reader.read()
        except UnreadableError:
            if time.monotonic() - read_at > UNREADABLE_SECONDS:
                raise
        else:
            read_at = time.monotonic()
            found = check(facts, exact_kubelets=False)
            if overdue := judge.observe(found, time.monotonic(), quiet_since=began):
                return overdue, len(facts.pods)
            clean = 0 if found else clean + 1
            if clean > 1:
                return [], len(facts.pods)
        time.sleep(1)


def run_audit(kubeconfig: Path, namespace: str) -> Sequence[dict[str, Any]]:
    """Return what `accelkit audit` finds wrong with the accounts."""
    command = [sys.executable, "-m", "accelkit", "audit", "--output", "json", "--kubeconfig", str(kubeconfig)]
    done = subprocess.run([*command, "--namespace", namespace, "--wait", "20"], capture_output=True, check=False)
    if done.returncode not in (0, 3):
        raise UnreadableError(f"accelkit audit: {done.stderr.decode(errors='replace').strip()}")
    return [each for each in json.loads(done.stdout)["findings"] if each["kind"] not in BESIDE_THE_POINT]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", default="accelkit", help="where accelkit runs")
    parser.add_argument("--service", default="accelkit-extender")
    parser.add_argument("--audit", action="store_true", help="fail too where `accelkit audit` says otherwise")
    options = parser.parse_args()
    try:
        api = open_api(options.kubeconfig)
        reader = Reader(api, read_kind_checkpoint, open_ledger(api, options.namespace, options.service))
        overdue, pods = find_overdue(reader)
        findings = run_audit(options.kubeconfig, options.namespace) if options.audit else []
    except UnreadableError as exc:
        print(f"cannot check the cluster: {exc}", file=sys.stderr)
        return 2
    for violation in overdue:
        print(f"VIOLATION {violation}")
    if options.audit and bool(findings) != bool(overdue):
        print(f"VIOLATION audit_disagrees: the audit finds {findings or 'nothing'}")
        return 1
    if not overdue:
        print(f"the accounts of {pods} pods with cards are right")
    return 1 if overdue else 0


if __name__ == "__main__":
    sys.exit(main())
