"""What is written for each Kubernetes version, as the table of docs/scheduler-versions.md.

Run as a program it writes that file:

    .venv/bin/python tests/unit/accelkit/scheduler/version_table.py
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduler_manifests import MINORS, kubeadm_manifest
from strict_types import format_of, types_of, violations
from support.yaml import parse_yaml

from accelkit.scheduler.configuration.extender_entry import Extender
from accelkit.scheduler.configuration.versions import read_formats, reads_policy
from accelkit.scheduler.launch.manifest import StaticPod
from accelkit.scheduler.launch.plan import DesiredSettings, Plan, TlsCredentials

DOCUMENT = Path(__file__).parents[4] / "docs" / "scheduler-versions.md"
HEAD = """\
# Kubernetes versions

Which configuration a kube-scheduler set up by kubeadm is given, against which types the file was validated (every
field known, every value of the JSON type that the Go struct has), and on which versions accelkit was run. Written by a
test from what the code does; `.venv/bin/python tests/unit/accelkit/scheduler/version_table.py` writes it anew.

| Kubernetes | written | valid against | what the version reads | run |
|---|---|---|---|---|
"""
# What was done on a version beyond reading what is rendered for it.
RUN = {
    34: "all tests; kind",
    37: "integration tests of installation, scheduling, waking, replicas, readers, node agents and pod groups",
}
FOOT = """
**run**: where this is empty, no API server or kube-scheduler of that version was started. What is rendered for it was
read against its published Go types: the configuration, as said above, and every object that the roles apply with every
setting that changes objects (tests/unit/roles/test_served_objects.py; `scripts/api_types.py` gathers the types). A kind
that the version does not serve, and a field that it lacks or has behind a feature gate, fails the test. Admission
policies, and with them the waking of waiting pods and the correction of assignments, are applied from 1.30 on.

A control plane of another version than the sandbox's is built by `scripts/control_plane.py`, for instance
`.venv/bin/python scripts/control_plane.py 1.37.2 /tmp/kubernetes-1.37`; with
`KUBEBUILDER_ASSETS=/tmp/kubernetes-1.37` the integration tests run on it, and that version's kube-scheduler reads its
configuration, strictly, in tests/integration/test_scheduler_configuration.py.

## The configuration

A new configuration is put in by the option `--config`, and a volume and a mount `accelkit` of the manifest. An existing
one keeps its own apiVersion where the version reads it; an existing Policy (up to 1.22) stays a Policy. The options
that `--config` puts out of force are carried into the file: for kubeadm's manifests `--kubeconfig`, `--leader-elect`
and, up to 1.22, `--port=0`.

## Opportunistic batching

From 1.35 on kube-scheduler may place a pod by the scores of an equal pod before it, without asking for scores again.
It does so in no profile of a configuration with an extender, so nothing has to be turned off: equal pods are packed as
accelkit's scores say. A test on the real kube-scheduler shows both, batching without an extender and none with ours
(tests/integration/test_extender_scheduler.py).

## How kube-scheduler is started

| form | run by a test |
|---|---|
| static pod | kind (kubeadm); three hosts whose manifests are run by a stand-in for the kubelet |
| unit of systemd | `make forms`: a real systemd, the real kube-scheduler |
| inside k3s, RKE2 | `make forms`: a real systemd, the real kube-scheduler, and a script between them |
| second scheduler | the real kube-scheduler, seeing the files and the account of its pod alone |

That script stands for k3s and RKE2, which themselves were not run: their releases are not to be had where the tests
run. It reads `config.yaml` and `config.yaml.d` by their rules and starts kube-scheduler as they would.
"""


@dataclass(frozen=True)
class Row:
    """One version."""

    minor: int
    plan: Plan
    document: dict[str, Any]

    @property
    def markdown(self) -> str:
        module, _ = types_of(self.minor, format_of(self.document))
        reads = [*(["Policy"] if reads_policy(self.minor) else []), *read_formats(self.minor)]
        return (
            f"| 1.{self.minor} | {format_of(self.document)} | {module} | {', '.join(reads)} "
            f"| {RUN.get(self.minor, '')} |\n"
        )


def wanted(version: str, **changed: Any) -> DesiredSettings:
    """Return what is asked for in the tests."""
    extender = Extender(
        url_prefix="https://10.96.0.77:32766", tls_config={"serverName": "accelkit-extender.kube-system.svc"}
    )
    given: dict[str, Any] = {
        "extender": extender,
        "kubernetes_version": version,
        "credentials": TlsCredentials(ca=b"authority", certificate=b"certificate", key=b"key"),
    }
    return DesiredSettings(**{**given, **changed})


@functools.cache
def row(minor: int) -> Row:
    """Plan for one version and read the file back; a file that the version would refuse is an error."""
    plan = StaticPod().plan(kubeadm_manifest(minor), None, lambda _: None, wanted(f"v1.{minor}.0"))
    path = plan.marker.partition("=")[2]
    document = parse_yaml(plan.files[path].content.decode())
    wrong = violations(document, minor)
    assert not wrong, wrong
    return Row(minor, plan, document)


def table() -> str:
    """Return the document."""
    return HEAD + "".join(row(minor).markdown for minor in MINORS) + FOOT


if __name__ == "__main__":
    DOCUMENT.write_text(table())
