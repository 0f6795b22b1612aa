"""Clusters on which accelkit runs as it is shipped: how the checker reads each kind of them, and `accelkit audit`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults.reading import HttpsSource, Reader, UnreadableError, open_api

CHECKPOINT = "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
NOTHING_GIVEN = b'{"Data": {"PodDeviceEntries": null}}'
INSPECTOR = "accelkit-inspector"
AUDIENCE = "accelkit.io/inspect"
TOKEN_HEADER = "X-Accelkit-Token"  # noqa: S105 - a name
# Findings of the audit that are no wrong accounts.
BESIDE_THE_POINT = frozenset({"unhealthy_card_in_use", "constraint_broken", "strange_process", "topology_policy"})


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster whose accounts can be checked.

    Attributes:
        exact_kubelets: whether its kubelets forget a pod that has ended at once, as simulated ones do.
        audit_options: options of `accelkit audit`.
    """

    kubeconfig: Path
    api: HttpsSource
    reader: Reader
    exact_kubelets: bool
    audit_options: Sequence[str]

    def audit(self, wait_seconds: int = 20) -> Sequence[dict[str, Any]]:
        """Return what `accelkit audit` finds wrong with the accounts.

        Raises:
            UnreadableError: the audit failed, or could not read the ledger.
        """
        command = [sys.executable, "-m", "accelkit", "audit", "--output", "json", "--kubeconfig", str(self.kubeconfig)]
        command += [*self.audit_options, "--wait", str(wait_seconds)]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode not in (0, 3):
            raise UnreadableError(f"accelkit audit: {done.stderr.decode(errors='replace').strip()}")
        findings: Sequence[dict[str, Any]] = json.loads(done.stdout)["findings"]
        if unread := [each["message"] for each in findings if each["kind"] == "unreadable_ledger"]:
            raise UnreadableError(f"accelkit audit: {unread[0]}")
        return [each for each in findings if each["kind"] not in BESIDE_THE_POINT]


def open_kind(kubeconfig: Path, namespace: str, service: str) -> Cluster:
    """Return a cluster made by kind: nodes are containers, and the extender is asked through the API server.

    Raises:
        UnreadableError: the kubeconfig has no certificates in it.
    """
    api = open_api(kubeconfig)
    return Cluster(
        kubeconfig=kubeconfig,
        api=api,
        reader=Reader(api, read_kind_checkpoint, open_ledger(api, namespace, service)),
        exact_kubelets=False,
        audit_options=("--namespace", namespace),
    )


def open_sandbox(root: Path) -> Cluster:
    """Return the cluster of `accelkit sandbox up` in a folder, with accelkit as `make demo` installs it.

    Raises:
        UnreadableError: there is none.
    """
    try:
        facts = json.loads((root / "sandbox.json").read_text())
    except (OSError, ValueError) as exc:
        raise UnreadableError(f"{root} is not the folder of a sandbox: {exc}") from exc
    api = open_api(Path(facts["kubeconfig"]))

    def read_checkpoint(node: str) -> bytes:
        return read_file_checkpoint(root / "nodes" / node)

    def ask() -> Mapping[str, Any]:
        extender = HttpsSource(facts["extender_url"], None)
        try:
            answer: Mapping[str, Any] = extender.get("/inspect")
        finally:
            extender.close()
        return answer

    return Cluster(
        kubeconfig=Path(facts["kubeconfig"]),
        api=api,
        reader=Reader(api, read_checkpoint, ask),
        exact_kubelets=True,
        audit_options=("--extender", facts["extender_url"]),
    )


def read_kind_checkpoint(node: str) -> bytes:
    """Return the checkpoint of the kubelet in a container."""
    command = ["docker", "exec", node, "cat", f"/{CHECKPOINT}"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=30)
    if done.returncode:
        raise UnreadableError(f"{CHECKPOINT} of {node}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def read_file_checkpoint(root: Path) -> bytes:
    """Return the checkpoint of the simulated kubelet whose node has this folder as its `/`."""
    path = root / CHECKPOINT
    try:
        return path.read_bytes()
    except FileNotFoundError:
        # A kubelet writes it when it gives something for the first time.
        return NOTHING_GIVEN
    except OSError as exc:
        raise UnreadableError(f"{path}: {exc}") from exc


def open_ledger(api: HttpsSource, namespace: str, service: str) -> Callable[[], Mapping[str, Any]]:
    """Return what asks the extender through the API server, as a reader of the cluster does."""

    def ask() -> Mapping[str, Any]:
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{INSPECTOR}/token"
        made = api.ask("POST", account, {"spec": {"audiences": [AUDIENCE], "expirationSeconds": 600}})
        path = f"/api/v1/namespaces/{namespace}/services/https:{service}:read/proxy/inspect"
        answer: Mapping[str, Any] = api.ask("GET", path, headers={TOKEN_HEADER: made["status"]["token"]})
        return answer

    return ask
