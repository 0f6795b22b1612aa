"""What is written for each Kubernetes version, as the first table of docs/reference/scheduler-versions.md.

Run as a program it writes the rows of that table:

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

from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.configuration.versions import read_formats, reads_policy
from accelkit.scheduler.launch.manifest import StaticPod
from accelkit.scheduler.launch.plan import DesiredSettings, LaunchPlan, TlsCredentials

DOCUMENT = Path(__file__).parents[4] / "docs" / "reference" / "scheduler-versions.md"
# What was done on a version beyond reading what is rendered for it.
RUN = {
    34: "all tests; kind",
    37: "integration tests of installation, scheduling, waking, replicas, readers, node agents and pod groups",
}


@dataclass(frozen=True)
class Row:
    """One version."""

    minor: int
    plan: LaunchPlan
    document: dict[str, Any]

    @property
    def markdown(self) -> str:
        module, _ = types_of(self.minor, format_of(self.document))
        reads = [*(["Policy"] if reads_policy(self.minor) else []), *read_formats(self.minor)]
        return (
            f"| 1.{self.minor} | {format_of(self.document)} | {module} | {', '.join(reads)} "
            f"| {RUN.get(self.minor, '')} |\n"
        )


def desired(version: str, **changed: Any) -> DesiredSettings:
    """Return what is asked for in the tests."""
    extender = ExtenderEntry(
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
    plan = StaticPod().plan(kubeadm_manifest(minor), None, lambda _: None, desired(f"v1.{minor}.0"))
    path = plan.marker.partition("=")[2]
    document = YAML(typ="safe", pure=True).load(plan.files[path].content)
    wrong = violations(document, minor)
    assert not wrong, wrong
    return Row(minor, plan, document)


def table() -> str:
    """Return the document with the rows that the code makes in its first table."""
    lines = DOCUMENT.read_text().splitlines(keepends=True)
    first = next(place for place, line in enumerate(lines) if line.startswith("| 1."))
    below = [line for line in lines[first:] if not line.startswith("| 1.")]
    return "".join([*lines[:first], *(row(minor).markdown for minor in MINORS), *below])


if __name__ == "__main__":
    DOCUMENT.write_text(table())
