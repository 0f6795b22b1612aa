"""Every object that the roles render is one that the API server of the cluster's version serves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rendering import ROOT, evaluate
from served_objects import MINORS, violations
from support.yaml import read_yaml

from accelkit.scheduler.arguments import ExtenderSpec, PodImage, Spec
from accelkit.scheduler.configuration.versions import OLDEST
from accelkit.scheduler.node_pod.objects import build_objects
from accelkit.vendors.dialects import list_dialect_names

TEMPLATES = sorted((ROOT / "roles").glob("*/templates/*.yaml.j2"))
ROLES = sorted({path.parents[1].name for path in TEMPLATES})
PLACE = {"image_pull_secrets": ["registry"], "node_selector": {"a": "b"}, "affinity": {"nodeAffinity": {}}}
# Rendered once, by one process.
pytestmark = [pytest.mark.xdist_group("served_objects"), pytest.mark.timeout(600)]
# Where the templates take another turn. They are rendered for these versions alone, and the result is read as each of
# the versions up to the next one reads it.
DECISIVE = (MINORS[0], 30, 31)
# Its template holds a configuration of kube-scheduler, which code writes for each version.
CONFIGURED = "second_scheduler"
# Behind a feature gate until 1.35, which is on from 1.31; an API server where somebody turned it off drops the field.
GATED = ".recursiveReadOnly is not served"
# Settings by role that change which objects or fields there are, beside the defaults.
SETTINGS: dict[str, list[dict[str, object]]] = {
    "certificates": [{**PLACE, "tolerations": []}],
    "device_plugin": [
        *({"dialect": name} for name in list_dialect_names(advertised=True)),
        {"corrections": False, "cgroups": True, "mps_folder": "/mps", "cdi_folders": ["/etc/cdi"]},
        {"driver_root": "/run/nvidia/driver", "runtime_class": "nvidia", "cdi_devices": ["a=b"], "privileged": True},
        {**PLACE, "metrics_port": 0, "processes": True},
    ],
    "extender": [
        *({"dialects": [name]} for name in list_dialect_names()),
        {"expose": "host", "log_folder": ""},
        {**PLACE, "wake": False, "replicas": 3, "policy": "spread"},
        {"guard_all_pods": True, "assignment_writers": ["system:serviceaccount:other:scheduler"]},
    ],
    "kernel_cache": [
        {"pull_secret_namespaces": ["a", "b/c"], "registry_mirrors": {"a": "b"}, "max_gib": 1, "min_free_gib": 1},
        {**PLACE, "webhook": False, "metrics_port": 0, "scan": False, "adopt": True},
        {"registry_ca": str(Path(__file__)), "metrics_from": [{"podSelector": {}}], "replicas": 1},
    ],
    "remediation": [
        {"mode": "on", "reset_job": "reset", "stages": ["plugin-check"]},
        {**PLACE, "mode": "dry-run", "metrics_port": 0, "taint": False},
    ],
    "scheduler": [
        {"extender_url": "https://10.0.0.1:1", "image_pull_secrets": ["registry"]},
        {"dns_policy": "Default", "host_folders": ["/etc/ssl"]},
    ],
    "second_scheduler": [
        {"extender_url": "http://10.0.0.1:1"},
        {**PLACE, "tolerations": [{"operator": "Exists"}]},
    ],
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    """All objects, as Ansible renders them, by minor version."""
    cases = {}
    for minor in MINORS:
        lookups = []
        for template in TEMPLATES:
            role = template.parents[1].name
            decisive = minor in DECISIVE
            for settings in ({},) * (decisive or role == CONFIGURED) + tuple(SETTINGS.get(role, ()) * decisive):
                given = {f"{role}_{name}": value for name, value in settings.items()}
                given["__accelkit_kubernetes_version"] = f"v1.{minor}.3"
                lookups.append(f"lookup('ansible.builtin.template', '{template}', template_vars={given})")
        cases[str(minor)] = {"objects": "{{ [" + ", ".join(lookups) + "] | map('from_yaml_all') | flatten | select }}"}
    found = evaluate(tmp_path_factory.mktemp("rendered"), "objects | list", cases, roles=ROLES)
    decisive_for = {minor: max(one for one in DECISIVE if one <= minor) for minor in MINORS}
    return {minor: [each for one in {minor, decisive_for[minor]} for each in found[str(one)]] for minor in MINORS}


def test_templates_change_only_at_decisive_versions():
    texts = [path.read_text() for role in ROLES for path in (ROOT / "roles" / role).glob("[tv]*/*")]
    turns = {int(minor) for text in texts for minor in re.findall(r"is version\('1\.(\d+)", text)}
    assert turns == set(DECISIVE[1:])


def test_minor_versions_match_versions_accepted_by_code():
    assert list(range(OLDEST, MINORS[-1] + 1)) == MINORS


@pytest.mark.parametrize("minor", MINORS)
def test_each_rendered_object_is_served_by_api_server(rendered, minor):
    found = {each for document in rendered[minor] for each in violations(document, minor)}
    assert {each for each in found if minor < 31 or not each.endswith(GATED)} == set()


def test_admission_policies_are_rendered_from_kubernetes_1_30(rendered):
    for minor, documents in rendered.items():
        kinds = {each["kind"] for each in documents}
        assert {"CronJob", "PodDisruptionBudget", "DaemonSet", "Deployment"} <= kinds
        assert ("ValidatingAdmissionPolicy" in kinds) == (minor >= 30), minor


def test_mounts_are_recursively_read_only_from_kubernetes_1_31(rendered):
    for minor, documents in rendered.items():
        assert ('"recursiveReadOnly": "IfPossible"' in json.dumps(documents)) == (minor >= 31), minor


@pytest.mark.parametrize("minor", MINORS)
def test_objects_created_by_playbooks_and_programs_are_served(minor):
    installer = read_yaml(ROOT / "playbooks/files/installer.yml")
    assert violations(installer, minor) == []
    spec = Spec(
        node="n",
        kubernetes_version=f"v1.{minor}.0",
        extender=ExtenderSpec(url_prefix="https://a:1"),
        dns_policy="Default",
    )
    created = build_objects("apply", spec, PodImage(image="i", pull_secrets=("s",)))
    for (path, body), kind in zip(created, ("ServiceAccount", "Role", "RoleBinding", "Secret", "Pod"), strict=True):
        version = path.removeprefix("/apis/").removeprefix("/api/").partition("/namespaces/")[0]
        assert violations({"apiVersion": version, "kind": kind, **body}, minor) == []


def test_validation_reports_unknown_kinds_fields_and_types():
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "spec": {}}
    assert violations(policy, 29) == ["admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy is not served"]
    assert violations(policy, 30) == []
    budget = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget"}
    assert violations(budget, 21) == ["policy/v1beta1 PodDisruptionBudget is not served"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": 1, "labels": {"a": True}}}
    assert violations(account, 34) == [
        "ServiceAccount.metadata.name: 1 is no string",
        "ServiceAccount.metadata.labels.a: True is no string",
    ]
    container = {"name": "c", "restartPolicy": "Always", "ports": {}, "resources": {"limits": {"cpu": "much"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"initContainers": [container]}}
    assert len(violations(pod, 37)) == 2
    assert "Pod.spec.initContainers[0].restartPolicy is not served" in violations(pod, 27)
