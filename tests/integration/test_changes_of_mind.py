"""site.yml with other variables than before removes what only the former ones wanted."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path

import pytest
from cluster_objects import changed, create_pull_secret, find_pull_secrets, objects
from conftest import Cluster, Sandbox
from test_labels_of_nodes import labelled, until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.paths import NODES, build_config_maps_path, build_leases_path, build_node_path
from accelkit.model.keys import FREED_AT_ANNOTATION
from accelkit.sandbox.layout import write_atomically
from accelkit.scheduler.arguments import decode_spec

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

POLICY_BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"

# What the choices below add, wherever it is; pods and what makes them have other names each time.
PASSING = (
    "/pods ",
    "/replicasets ",
    "/controllerrevisions ",
    "/secrets default/",
    "/endpoints",
    "/configmaps accelkit/node-",
)
OTHER = {
    "accelkit_shared_nodes": ["node-1"],
    # Intel's plugin serves the first, so nodes advertise the second.
    "accelkit_dialects": ["gas", "gcushare", "aliyun"],
    "accelkit_image_pull_secrets": ["registry"],
}
MORE = {
    "second_scheduler_name": "former",
    "second_scheduler_extender_url": "http://127.0.0.1:1",
    "scheduler_extender_url": "https://192.0.2.1:32766",
    "scheduler_launch": {},
    "scheduler_backup_dir": "/var/lib/accelkit/backup",
}


async def lasting(sandbox: Sandbox) -> dict[str, object]:
    """The names of all objects that are not replaced each time, and of nodes also what they are said to have."""
    found: dict[str, object] = {}
    for name, each in (await objects(sandbox)).items():
        if name.startswith(NODES):
            metadata, status = each["metadata"], each["status"]
            # The agents' inventories are the same but for the time of the last scan.
            found[name] = [
                metadata["labels"],
                sorted(metadata["annotations"]),
                status["capacity"],
                status["allocatable"],
            ]
        elif not any(kind in name for kind in PASSING):
            found[name] = each["metadata"].get("labels")
    return found


async def install_more(sandbox: Sandbox, folder: Path) -> None:
    """Apply what a sandbox cannot run: a second scheduler, the Lease of its replicas, and the keeper."""
    entries = [("second_scheduler", "apply"), ("scheduler", "keep"), ("scheduler", "check_keeper")]
    roles = [{"name": f"accelkit.kubernetes.{role}", "tasks_from": entry} for role, entry in entries]
    connection = {"kubeconfig": str(sandbox.kubeconfig)}
    play = {
        "hosts": "accelkit_api",
        "gather_facts": False,
        "vars": MORE,
        "module_defaults": {f"group/{name}": connection for name in ("kubernetes.core.k8s", "accelkit.kubernetes.api")},
        "tasks": [{"ansible.builtin.import_role": role} for role in roles],
    }
    playbook = folder / "more.yml"
    playbook.write_text(json.dumps([play]))
    await asyncio.to_thread(sandbox.playbook, str(playbook))
    checks = folder / "check_keeper.yml"
    checks.write_text(json.dumps([{**play, "tasks": play["tasks"][-1:]}]))
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        await api.delete(f"{POLICY_BINDINGS}/accelkit-scheduler-keeper")
        failed = (await asyncio.to_thread(sandbox.playbook, str(checks), check=False)).stdout
        assert "the admission policy accelkit-scheduler-keeper is not in force" in " ".join(failed.split())
        await api.post(build_leases_path("accelkit"), {"metadata": {"name": "former"}})
        kept = json.loads(await api.get(f"{build_config_maps_path('accelkit')}/accelkit-scheduler-keeper"))
        spec = decode_spec(json.loads(kept["data"]["spec.json"]))
        assert (spec.extender.url_prefix, spec.launch.kind) == (MORE["scheduler_extender_url"], "static_pod")
        keeper = json.loads(await api.get("/apis/apps/v1/namespaces/accelkit/daemonsets/accelkit-scheduler-keeper"))
        mounts = keeper["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        written = {mount["mountPath"] for mount in mounts if not mount.get("readOnly")}
        # Neither /etc/kubernetes with its keys, nor all of /var/lib.
        folders = ("etc/kubernetes/manifests", "etc/kubernetes/accelkit", "var/lib/accelkit/backup")
        assert written == {f"/host/{folder}" for folder in folders}


@pytest.mark.extended
async def test_next_run_removes_objects_of_former_settings(installed, tmp_path):
    await create_pull_secret(installed)
    async with ApiClient(load_connection(installed.kubeconfig)) as api:
        for node, cards in {"node-1": "8", "node-2": "4"}.items():
            await until(lambda node=node, cards=cards: labelled(Cluster(api, installed), node, cards))
            # Of pods of other tests; it goes with the node's sharing, and does not come back with that.
            await api.patch(build_node_path(node), {"metadata": {"annotations": {FREED_AT_ANNOTATION: None}}})
    before = await lasting(installed)
    await install_more(installed, tmp_path)
    added = {name for name in await lasting(installed) if name not in before}
    assert {name.rpartition(" ")[2] for name in added} >= {
        "/former",
        "accelkit/former",
        "kube-system/former-authentication",
    }
    try:
        assert changed(installed.playbook("site.yml", "-e", json.dumps(OTHER)).stdout) > 0
        with_others = await lasting(installed)
        assert not [name for name in with_others if "/former" in name or "scheduler-keeper" in name]
        assert await find_pull_secrets(installed) == ["accelkit", "default", "kube-system"]
        assert any(name.endswith("/roles kube-system/accelkit-extender") for name in with_others)
        labels, _, _, allocatable = with_others[f"{NODES} /node-1"]
        assert allocatable["enflame.com/gcu-memory"] == "128"
        assert "accelkit.io/memory" not in allocatable
        assert labels["enflame.com/gcushare"] == "true"
        assert "accelkit.io" not in json.dumps(with_others[f"{NODES} /node-2"])
        assert "/api/v1/configmaps accelkit/node-2" not in await objects(installed)
        assert changed(installed.playbook("site.yml", "-e", json.dumps(OTHER)).stdout) == 0
    finally:
        installed.playbook("site.yml")
    assert await find_pull_secrets(installed) == ["default"]
    deadline = time.monotonic() + 180
    # An agent that starts may write its labels a minute later.
    while (after := await lasting(installed)) != before and time.monotonic() < deadline:
        await asyncio.sleep(1)
    assert {name: after.get(name) for name in before if before[name] != after.get(name)} == {}
    assert sorted(after) == sorted(before)


@pytest.mark.long
async def test_node_excluded_by_user_is_not_shared(installed):
    async with ApiClient(load_connection(installed.kubeconfig)) as api:
        for value in ("false", None):
            await api.patch(build_node_path("node-2"), {"metadata": {"labels": {"accelkit.io/share": value}}})
            installed.playbook("site.yml")
            node = json.loads(await api.get(build_node_path("node-2")))
            assert node["metadata"]["labels"].get("accelkit.io/share") == ("false" if value else "true")
            assert ("accelkit.io/memory" in node["status"]["allocatable"]) is (value is None)


def limited(sandbox: Sandbox, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run site.yml with a worker in the inventory beside the sandbox."""
    worker = {
        "worker-3": {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    }
    (folder / "workers.json").write_text(json.dumps({"accelkit_nodes": {"hosts": worker}}))
    return sandbox.playbook("site.yml", "-i", str(folder / "workers.json"), *arguments, check=False)


@pytest.mark.long
def test_limit_that_excludes_api_host_is_rejected_with_correction(installed, tmp_path):
    done = limited(installed, tmp_path, "--limit", "worker-3")
    said = " ".join(done.stdout.split())
    assert done.returncode != 0
    assert "--limit worker-3 excludes sandbox, the host that accesses the API server; use" in said
    assert "--limit worker-3,accelkit_api" in said
    done = limited(installed, tmp_path, "--limit", "worker-3,accelkit_api")
    assert done.returncode == 0, done.stdout + done.stderr
    assert changed(done.stdout) == 0


TAGS = ("node_labels", "certificates", "device_plugin", "second_scheduler", "scheduler")


@pytest.mark.parametrize(
    "tag",
    [
        "images",
        pytest.param("extender", marks=pytest.mark.extended),
        *(pytest.param(tag, marks=pytest.mark.long) for tag in TAGS),
    ],
)
def test_run_with_single_tag_changes_nothing_after_installation(installed, tag):
    done = installed.playbook("site.yml", "--tags", tag)
    assert changed(done.stdout) == 0
    assert "Check the settings" in done.stdout


@pytest.mark.long
def test_run_with_scheduler_tag_repairs_only_scheduler(installed):
    config = Path(installed.facts.scheduler_config)
    switched = config.read_text()
    write_atomically(config, switched.replace("httpTimeout: 10s", "httpTimeout: 11s").encode(), config.stat().st_mode)
    assert config.read_text() != switched
    assert changed(installed.playbook("site.yml", "--tags", "extender").stdout) == 0
    assert changed(installed.playbook("site.yml", "--tags", "scheduler").stdout) == 1
    assert config.read_text() == switched
