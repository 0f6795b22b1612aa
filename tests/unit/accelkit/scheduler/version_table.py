"""What is written for each Kubernetes version, as the table of docs/scheduler-versions.md.

Run as a program it writes that file:

    .venv/bin/python tests/unit/accelkit/scheduler/version_table.py
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from scheduler_manifests import MINORS, kubeadm_manifest
from strict_types import format_of, types_of, violations

from accelkit.scheduler.configuration.extender_entry import Extender
from accelkit.scheduler.configuration.versions import read_formats, reads_policy
from accelkit.scheduler.launch.manifest import StaticPod
from accelkit.scheduler.launch.plan import DesiredSettings, Plan, TlsCredentials

DOCUMENT = Path(__file__).parents[4] / "docs" / "scheduler-versions.md"
HEAD = """\
# kube-scheduler configurations by Kubernetes version

Which configuration a kube-scheduler set up by kubeadm is given, which option and mount its manifest gains, and against
which types the file was validated: every field known, every value of the JSON type that the Go struct has. Written by a
test from what the code does; `.venv/bin/python tests/unit/accelkit/scheduler/version_table.py` writes it anew.

An existing configuration keeps its own apiVersion where the version reads it, and existing Policies stay Policies.

| Kubernetes | written | new in the manifest | valid against | what the version reads |
|---|---|---|---|---|
"""
FOOT = """
The options that `--config` puts out of force are carried into the file: for kubeadm's manifests `--kubeconfig`,
`--leader-elect` and, from 1.19 to 1.22, `--port=0`. A Policy leaves all options in force. The types of a Policy are in
the module from 1.17 on; those stand for 1.16. Of the version whose kube-scheduler is installed, that program itself
reads the files, strictly, in tests/integration/test_scheduler_configuration.py.
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
        option = self.plan.marker.partition("=")[0]
        reads = [*(["Policy"] if reads_policy(self.minor) else []), *read_formats(self.minor)]
        return (
            f"| 1.{self.minor} | {format_of(self.document)} | `{option}`, volume and mount `accelkit` "
            f"| {module} | {', '.join(reads)} |\n"
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
    document = YAML(typ="safe", pure=True).load(plan.files[path].content.decode())
    wrong = violations(document, minor)
    assert not wrong, wrong
    return Row(minor, plan, document)


def table() -> str:
    """Return the document."""
    return HEAD + "".join(row(minor).markdown for minor in MINORS) + FOOT


if __name__ == "__main__":
    DOCUMENT.write_text(table())
