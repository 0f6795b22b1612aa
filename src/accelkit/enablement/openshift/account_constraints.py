"""Constraints for the ServiceAccounts of workloads that a role applies, and of pods that accelkit creates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from accelkit.enablement.openshift.admission import find_violations
from accelkit.enablement.openshift.constraints import (
    CONSTRAINTS_KIND,
    needed_constraints,
    read_constraints,
    write_constraints,
)

# The pods of the cache controller's Jobs and DaemonSets. These pods use the namespace's default ServiceAccount. The
# check pods also use it, and do not have volumes.
FILLING_POD: Final[dict[str, Any]] = {
    "automountServiceAccountToken": False,
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "containers": [
        {
            "name": "fill",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
        }
    ],
    "volumes": [
        {"name": "volume", "persistentVolumeClaim": {}},
        {"name": "settings", "configMap": {}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "pull-0", "secret": {}},
    ],
}
# Pods that pull an image do not have an fsGroup.
FETCHING_POD: Final[dict[str, Any]] = {
    **FILLING_POD,
    "securityContext": {key: each for key, each in FILLING_POD["securityContext"].items() if key != "fsGroup"},
    "volumes": [{"name": "kernel-cache", "image": {}}],
}


@dataclass
class _Account:
    labels: Mapping[str, str] = field(default_factory=dict)
    pods: list[Mapping[str, Any]] = field(default_factory=list)


def name_constraints(namespace: str, account: str) -> str:
    """Return the name of a ServiceAccount's constraints. Names are unique because namespace names contain no dots."""
    return f"{namespace}.{account}"


def add_constraints(definitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the given objects, preceded by the constraints that the pods of these objects need for admission.

    Constraints have the labels of the ServiceAccount's first workload, so that they are pruned and removed together
    with the workload.

    Raises:
        ConfigurationError: the template of a workload is not a valid pod specification.
    """
    return [*_list_constraints(definitions), *definitions]


def write_created_constraints(namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the constraints for pods that fill volumes, pull images, or check nodes."""
    needed = needed_constraints(FILLING_POD, FETCHING_POD)
    users = [_name_user(namespace, "default")]
    return write_constraints(needed, name_constraints(namespace, "default"), users=users, labels=labels)


def find_refused(workloads: Iterable[Mapping[str, Any]], written: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each workload whose constraints are missing or would not admit its pods.

    Args:
        workloads: the workloads from the API server; workloads without a pod template are ignored.
        written: the SecurityContextConstraints of the cluster.
    """
    found = {each["metadata"]["name"]: each for each in written}
    problems = []
    for each in workloads:
        for namespace, account, spec in _find_pods(each):
            name = name_constraints(namespace, account)
            subject = f"{each['kind']} {namespace}/{each['metadata']['name']}"
            if name not in found or _name_user(namespace, account) not in (found[name].get("users") or ()):
                problems.append(f"{subject}: {CONSTRAINTS_KIND} {name} is missing or excludes its ServiceAccount")
                continue
            try:
                constraints = read_constraints(found[name])
            except msgspec.ValidationError as exc:
                problems.append(f"{subject}: {CONSTRAINTS_KIND} {name} cannot be read: {exc}")
                continue
            problems += [f"{subject}: {reason}" for reason in find_violations(spec, constraints)]
    return sorted(problems)


def _list_constraints(definitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    accounts: defaultdict[tuple[str, str], _Account] = defaultdict(_Account)
    for each in definitions:
        for namespace, account, spec in _find_pods(each):
            known = accounts[namespace, account]
            known.labels = known.labels or each["metadata"].get("labels") or {}
            known.pods.append(spec)
    return [
        write_constraints(
            needed_constraints(*known.pods),
            name_constraints(namespace, account),
            users=[_name_user(namespace, account)],
            labels=known.labels,
        )
        for (namespace, account), known in sorted(accounts.items(), key=lambda each: each[0])
    ]


def _find_pods(each: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the namespace, ServiceAccount and pod specification of an object that is a pod or creates pods."""
    spec = each.get("spec") or {}
    if each.get("kind") == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    if each.get("kind") != "Pod":
        spec = (spec.get("template") or {}).get("spec") or {} if isinstance(spec.get("template"), Mapping) else {}
    if not spec.get("containers"):
        return
    # If the namespace is missing, an object and its pods are created in the default namespace of the client.
    namespace = each["metadata"].get("namespace") or "default"
    yield namespace, spec.get("serviceAccountName") or "default", spec


def _name_user(namespace: str, account: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"
