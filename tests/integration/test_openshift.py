"""What is applied on OpenShift, by its published resource definitions: admitted, applied twice alike, and undone."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cache_definitions import DEFINITIONS, established, served
from conftest import Sandbox, ansible_playbook
from openshift_definitions import read_definitions
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SETS = "/apis/machine.openshift.io/v1beta1/namespaces/openshift-machine-api/machinesets"
CONSTRAINTS = "/apis/security.openshift.io/v1/securitycontextconstraints"
SCALERS = "/apis/autoscaling.openshift.io/v1beta1/namespaces/openshift-machine-api/machineautoscalers"
CLUSTER_SCALERS = "/apis/autoscaling.openshift.io/v1/clusterautoscalers"
SOURCE: dict[str, Any] = {
    "apiVersion": "machine.openshift.io/v1beta1",
    "kind": "MachineSet",
    "metadata": {"name": "worker-a", "namespace": "openshift-machine-api"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"machine.openshift.io/cluster-api-machineset": "worker-a"}},
        "template": {
            "metadata": {"labels": {"machine.openshift.io/cluster-api-machineset": "worker-a"}},
            "spec": {"providerSpec": {"value": {"kind": "AWSMachineProviderConfig", "instanceType": "m6i.xlarge"}}},
        },
    },
}
SETTINGS: dict[str, Any] = {
    "accelkit_mode": "second-scheduler",
    "openshift_created_pods": True,
    "openshift_timeout": 30,
    "openshift_cluster_autoscaler": {"scaleDown": {"enabled": True}},
    "openshift_machine_sets": [
        {
            "name": "cards-a",
            "source": "worker-a",
            "instance_type": "g6e.12xlarge",
            "autoscale": {"min": 0, "max": 4},
            "capacity": {"cpu": 48, "card_memory": 180},
            "taints": [{"key": "cards", "effect": "NoSchedule"}],
        }
    ],
}


@pytest.fixture(scope="module")
def openshift():
    """A sandbox of its own, since others would find OpenShift there."""
    definitions = read_definitions()
    with Sandbox("nodes: [{name: node-1, cards: [{memory: 16GiB}]}]") as sandbox:
        asyncio.run(_define(sandbox, definitions))
        yield sandbox


async def _define(sandbox: Sandbox, definitions: list[dict[str, Any]]) -> None:
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        for each in definitions:
            await api.post(DEFINITIONS, each)
        for each in definitions:
            await until(partial(established, api, each["metadata"]["name"]), seconds=90, every=0.1)
        for path in (SETS, CONSTRAINTS, SCALERS, CLUSTER_SCALERS):
            await until(partial(served, api, path), seconds=90, every=0.1)
        await api.post("/api/v1/namespaces", {"metadata": {"name": "openshift-machine-api"}})
        await api.post("/api/v1/namespaces", {"metadata": {"name": "accelkit"}})
        await api.post(SETS, SOURCE)


def run(sandbox: Sandbox, folder: Path, entry: str, *options: str, **settings: Any) -> tuple[int, str]:
    """Return status and output of one entry point of the role."""
    task = {"ansible.builtin.import_role": {"name": "accelkit.kubernetes.openshift", "tasks_from": entry}}
    variables = {**SETTINGS, "ansible_python_interpreter": "{{ ansible_playbook_python }}", **settings}
    play = [{"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}]
    (folder / "play.json").write_text(json.dumps(play))
    done = ansible_playbook(folder / "play.json", *options, environ=sandbox.environ, seconds=300)
    return done.returncode, done.stdout + done.stderr


async def names(api: ApiClient, path: str) -> list[str]:
    return sorted(each["metadata"]["name"] for each in json.loads(await api.get(path))["items"])


async def test_objects_are_applied_once_and_removed(openshift, tmp_path):
    status, said = run(openshift, tmp_path, "apply")
    assert status == 0, said
    status, said = run(openshift, tmp_path, "apply")
    assert status == 0, said
    assert "changed=0" in said
    async with ApiClient(load_connection(openshift.kubeconfig)) as api:
        assert await names(api, SETS) == ["cards-a", "worker-a"]
        assert await names(api, SCALERS) == ["cards-a"]
        assert await names(api, CLUSTER_SCALERS) == ["default"]
        assert await names(api, CONSTRAINTS) == ["accelkit.default"]
        made = json.loads(await api.get(f"{SETS}/cards-a"))
        assert made["spec"]["template"]["spec"]["providerSpec"]["value"]["instanceType"] == "g6e.12xlarge"
        # What the autoscaler chose stays.
        await api.patch(f"{SETS}/cards-a", {"spec": {"replicas": 3}}, kind="merge")
        status, said = run(openshift, tmp_path, "apply")
        assert status == 0, said
        assert json.loads(await api.get(f"{SETS}/cards-a"))["spec"]["replicas"] == 3
        # Nobody makes machines here.
        status, said = run(openshift, tmp_path, "check", openshift_timeout=10)
        assert status != 0
        assert "cards-a has 0 of 3 machines" in said
        # One that leaves the list goes, and the source stays.
        status, said = run(openshift, tmp_path, "apply", openshift_machine_sets=[])
        assert status == 0, said
        assert await names(api, SETS) == ["worker-a"]
        status, said = run(openshift, tmp_path, "remove")
        assert status == 0, said
        for path in (SCALERS, CLUSTER_SCALERS, CONSTRAINTS):
            assert await names(api, path) == []
        assert await names(api, SETS) == ["worker-a"]


def test_preflight_refuses_scheduler_managed_by_openshift_operator(openshift, tmp_path):
    status, said = run(openshift, tmp_path, "preflight", accelkit_mode="")
    assert status != 0
    assert "cannot configure kube-scheduler: an OpenShift operator manages it" in said
