"""The kinds of OpenShift that the installation writes, on an API server of Kubernetes.

SecurityContextConstraints and MachineSets are those that OpenShift publishes in its Go module, read from the module
cache and never copied. Its autoscalers' kinds are not in that module: these are ours, to the documented fields.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

MODULE = "github.com/openshift/api"
# Of the files of the module: where each kind's definition may lie; the first that is there is taken.
_PUBLISHED = (
    (
        "payload-manifests/crds/0000_03_config-operator_01_securitycontextconstraints.crd.yaml",
        "security/v1/zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml",
    ),
    (
        "machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_machinesets-Default.crd.yaml",
        "machine/v1beta1/zz_generated.crd-manifests/0000_10_machine-api_01_machinesets.crd.yaml",
    ),
)
_COUNT = {"type": "integer", "minimum": 0}
_RANGE = {"type": "object", "required": ["min", "max"], "properties": {"min": _COUNT, "max": _COUNT}}


def read_definitions() -> list[dict[str, Any]]:
    """Return the definitions; the test is skipped where the module is in no cache."""
    folder = _find_module()
    load = YAML(typ="safe", pure=True).load
    published = []
    for places in _PUBLISHED:
        found = next((folder / each for each in places if (folder / each).is_file()), None)
        if found is None:
            pytest.skip(f"{MODULE} is in no module cache with {places[0]}")
        published.append(load(found.read_text()))
    return [*published, _define_cluster_autoscaler(), _define_machine_autoscaler()]


def _find_module() -> Path:
    """The newest copy in the module cache; nothing is fetched."""
    cache = os.environ.get("GOMODCACHE") or _run_go()
    copies = sorted(Path(cache, "github.com/openshift").glob("api@v0.0.0-*")) if cache else []
    if not copies:
        pytest.skip(f"{MODULE} is in no module cache")
    return copies[-1]


def _run_go() -> str:
    if shutil.which("go") is None:
        return ""
    done = subprocess.run(["go", "env", "-json", "GOMODCACHE"], capture_output=True, text=True, timeout=60, check=True)
    return str(json.loads(done.stdout)["GOMODCACHE"])


def _define_cluster_autoscaler() -> dict[str, Any]:
    gpu = {
        "type": "object",
        "required": ["type", "min", "max"],
        "properties": {"type": {"type": "string", "minLength": 1}, "min": _COUNT, "max": _COUNT},
    }
    limits = {
        "type": "object",
        "properties": {
            "maxNodesTotal": _COUNT,
            "cores": _RANGE,
            "memory": _RANGE,
            "gpus": {"type": "array", "items": gpu},
        },
    }
    down = {
        "type": "object",
        "required": ["enabled"],
        "properties": {
            "enabled": {"type": "boolean"},
            "delayAfterAdd": {"type": "string"},
            "delayAfterDelete": {"type": "string"},
            "delayAfterFailure": {"type": "string"},
            "unneededTime": {"type": "string"},
            "utilizationThreshold": {"type": "string"},
        },
    }
    spec = {
        "type": "object",
        "properties": {
            "resourceLimits": limits,
            "scaleDown": down,
            "balanceSimilarNodeGroups": {"type": "boolean"},
            "podPriorityThreshold": {"type": "integer"},
            "skipNodesWithLocalStorage": {"type": "boolean"},
        },
    }
    return _define("ClusterAutoscaler", "v1", "Cluster", spec)


def _define_machine_autoscaler() -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    target = {
        "type": "object",
        "required": ["kind", "name"],
        "properties": {"apiVersion": text, "kind": text, "name": text},
    }
    spec = {
        "type": "object",
        "required": ["minReplicas", "maxReplicas", "scaleTargetRef"],
        "properties": {
            "minReplicas": _COUNT,
            "maxReplicas": {"type": "integer", "minimum": 1},
            "scaleTargetRef": target,
        },
    }
    return _define("MachineAutoscaler", "v1beta1", "Namespaced", spec)


def _define(kind: str, version: str, scope: str, spec: dict[str, Any]) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.autoscaling.openshift.io"},
        "spec": {
            "group": "autoscaling.openshift.io",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": scope,
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }
