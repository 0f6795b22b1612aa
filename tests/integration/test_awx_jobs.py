"""Each job template's playbook, run by ansible-runner as AWX runs it, with the collection that is shipped."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import BIN, REPOSITORY, Sandbox
from ports import free_port
from private_sigstore import PrivateSigstore
from registries import caches, hostile
from ruamel.yaml import YAML

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.paths import build_collection_path, build_group_path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ACCOUNTS = build_collection_path("v1", "serviceaccounts", "kube-system")
RBAC = build_group_path("rbac.authorization.k8s.io/v1")
DEADLINE = 300


def load(path: Path):
    return YAML(typ="safe", pure=True).load(path.read_text())


@pytest.fixture(scope="module")
def collections(tmp_path_factory):
    """What an execution environment has: our collection as its tarball brings it, and kubernetes.core."""
    folder = tmp_path_factory.mktemp("collections")
    galaxy = [sys.executable, "-m", "ansible", "galaxy", "collection"]
    build, install = ("build", "--output-path", folder), ("install", "--offline", "--no-deps", "-p", folder)
    subprocess.run([*galaxy, *build], cwd=REPOSITORY, check=True, capture_output=True, timeout=DEADLINE)
    (tarball,) = folder.glob("*.tar.gz")
    subprocess.run([*galaxy, *install, tarball], cwd=folder, check=True, capture_output=True, timeout=DEADLINE)
    theirs = REPOSITORY / "collections" / "ansible_collections" / "kubernetes"
    (folder / "ansible_collections" / "kubernetes").symlink_to(theirs)
    return folder


@pytest.fixture(scope="module")
def credential(installed):
    """What AWX's credential for Kubernetes puts into the environment, of a user with the rights of an installer."""
    # GKM's examples are GKM's objects, which who installs accelkit has nothing to do with.
    gkm = {"apiGroups": ["gkm.io"], "resources": ["*"], "verbs": ["*"]}
    rules = [*load(REPOSITORY / "playbooks/files/installer.yml")["rules"], gkm]
    subject = {"kind": "ServiceAccount", "name": "awx", "namespace": "kube-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "awx"}
    made = {
        ACCOUNTS: {"metadata": {"name": "awx"}},
        f"{RBAC}/clusterroles": {"metadata": {"name": "awx"}, "rules": rules},
        f"{RBAC}/clusterrolebindings": {"metadata": {"name": "awx"}, "roleRef": reference, "subjects": [subject]},
    }

    async def create():
        async with ApiClient(load_connection(installed.kubeconfig)) as api:
            for path, body in made.items():
                await api.post(path, body)
            token = json.loads(await api.post(f"{ACCOUNTS}/awx/token", {"spec": {}}))["status"]["token"]
            return {"K8S_AUTH_HOST": api.server, "K8S_AUTH_API_KEY": token, "K8S_AUTH_VERIFY_SSL": "True"}

    async def delete():
        async with ApiClient(load_connection(installed.kubeconfig)) as api:
            for path in made:
                await api.delete(f"{path}/awx")

    yield asyncio.run(create())
    asyncio.run(delete())


@dataclass
class Job:
    """A job that has ended."""

    status: str
    said: str
    artifacts: dict
    changed: int


class Awx:
    """Runs jobs with the files and the environment that AWX gives to ansible-runner."""

    def __init__(self, folder: Path, sandbox: Sandbox, collections: Path, credential: dict[str, str]) -> None:
        self._folder, self._collections = folder, collections
        cluster = load(sandbox.kubeconfig)["clusters"][0]["cluster"]
        (folder / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        self._credential = {**credential, "K8S_AUTH_SSL_CA_CERT": str(folder / "ca.crt")}
        # The embedded cluster is one of AWX's inventory; its kubeconfig is not there.
        self._settings = load(REPOSITORY / "inventories/sandbox/group_vars/all.yml")
        del self._settings["accelkit_kubeconfig"]
        self._root = str(sandbox.paths.root)

    def environ(self) -> dict[str, str]:
        """The container's environment. Nobody can write into the home; Ansible itself needs two folders then."""
        ours = {name: str(self._folder / name.lower()) for name in ("ANSIBLE_HOME", "ANSIBLE_REMOTE_TMP")}
        return {
            "PATH": f"{BIN}:/usr/bin:/bin",
            "HOME": "/dev/null",
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": str(self._collections),
            **ours,
        }

    def read_inventory(self) -> dict:
        """What an inventory source of AWX takes from the project."""
        command = [BIN / "ansible-inventory", "-i", REPOSITORY / "awx/project/inventory", "--list", "--export"]
        environ = {**self.environ(), **self._credential}
        done = subprocess.run(
            command, env=environ, cwd=self._folder, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "WARNING" not in done.stderr
        return json.loads(done.stdout)

    def run(self, template: str, answers: dict, *, control_plane: tuple[str, ...] = ("api",)) -> Job:
        """Run the playbook of a template with these answers of its survey.

        Hosts of the control plane other than that of the embedded cluster are not reached.
        """
        private = Path(tempfile.mkdtemp(dir=self._folder))
        inventory = self.read_inventory()
        inventory["accelkit_control_plane"] = {"hosts": list(control_plane)}
        for name in {*control_plane} - {"api"}:
            inventory["_meta"]["hostvars"][name] = {"ansible_host": "127.0.0.1", "ansible_port": free_port()}
        inventory["all"]["vars"] = self._settings
        environ = {
            **self._credential,
            "ACCELKIT_SANDBOX": self._root,
            "AWX_PRIVATE_DATA_DIR": str(private),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(private / "cp"),
        }
        extra = {**answers, "awx_job_id": 7, "awx_user_name": "admin", "tower_job_id": 7}
        files = {"env/envvars": environ, "env/extravars": extra, "env/settings": {"suppress_ansible_output": True}}
        for name, content in files.items():
            (private / name).parent.mkdir(parents=True, exist_ok=True)
            (private / name).write_text(json.dumps(content))
        script = private / "inventory" / "hosts"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(inventory)}\nEND\n")
        script.chmod(0o700)
        before = _copy_read_only(REPOSITORY / "awx/project", private / "project")
        command = [BIN / "ansible-runner", "run", private, "--playbook", f"{template}.yml", "--ident", "7"]
        options = ["--cmdline", "--check --diff"] if template in CHECKED else []
        done = subprocess.run(
            [*command, *options],
            env=self.environ(),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert _list_files(private / "project") == before
        job = private / "artifacts" / "7"
        assert (job / "status").is_file(), done.stdout + done.stderr
        (stats,) = [
            event["event_data"]
            for event in (json.loads(path.read_text()) for path in (job / "job_events").glob("*.json"))
            if event["event"] == "playbook_on_stats"
        ]
        said = (job / "stdout").read_text()
        return Job((job / "status").read_text(), said, stats.get("artifact_data", {}), sum(stats["changed"].values()))


# What a job of type check shows; road tests install and remove.
CHECKED = ("share", "remove", "examples")


def _list_files(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def _copy_read_only(source: Path, target: Path) -> dict[str, bytes | None]:
    subprocess.run(["cp", "-r", source, target], check=True)
    subprocess.run(["chmod", "-R", "a-w", target], check=True)
    return _list_files(target)


@pytest.fixture
def awx(tmp_path, installed, collections, credential):
    yield Awx(tmp_path, installed, collections, credential)
    # pytest deletes it.
    subprocess.run(["chmod", "-R", "u+w", tmp_path], check=True)


def test_inventory_source_groups_nodes_by_accelerators(awx):
    inventory = awx.read_inventory()
    assert inventory["accelkit_api"]["hosts"] == ["api"]
    assert set(inventory["accelerators"]["children"]) == {
        *("accelerators_vendor_simulated", "accelerators_sharing_shared"),
        *("accelerators_model_sim_16g", "accelerators_model_sim_32g"),
        *("accelerators_free_8gib", "accelerators_free_16gib"),
    }
    assert inventory["accelerators_sharing_shared"]["hosts"] == ["node-1", "node-2"]
    node = inventory["_meta"]["hostvars"]["node-1"]
    assert node["accelerators_largest_free_bytes"] == 16 * 2**30
    assert len(node["accelerators_cards"]) == 8
    # They belong to the playbooks, which find the nodes by themselves.
    assert "accelkit_nodes" not in inventory


def test_preflight_changes_nothing_and_uses_nodes_of_inventory(awx):
    # As AWX's inventory says it; the embedded cluster has no control-plane nodes.
    cluster = {
        "accelkit_cluster": "kubernetes",
        "accelkit_mode": "second-scheduler",
        "accelkit_image": "example.org/a:1",
    }
    unanswered = {"accelkit_policy": "", "accelkit_dialects": [], "accelkit_shared_nodes": "", "accelkit_unit": ""}
    job = awx.run("preflight", {**cluster, **unanswered}, control_plane=())
    assert (job.status, job.changed) == ("successful", 0), job.said


def test_invalid_survey_answer_is_rejected_with_variable_name(awx):
    job = awx.run("preflight", {"accelkit_policy": "sprad"})
    assert job.status == "failed"
    assert "value of accelkit_policy must be one of: binpack, spread" in " ".join(job.said.split())


def test_driver_upgrade_is_refused_if_drivers_are_preinstalled(awx):
    job = awx.run("driver", {"accelkit_driver_nodes": "", "accelkit_driver_serial": ""})
    assert (job.status, job.changed) == ("failed", 0)
    assert "accelkit does not manage the drivers, because accelkit_driver_mode is preinstalled" in " ".join(
        job.said.split()
    )


def test_future_playbook_refuses_older_kubernetes_version(awx):
    job = awx.run("future", {"accelkit_future_kubernetes": "1.2", "accelkit_future_kernel": ""})
    assert (job.status, job.changed) == ("failed", 0)
    assert "(StepBack)" in job.said


@pytest.mark.long
def test_share_in_check_mode_reports_no_changes(awx):
    answers = {"accelkit_policy": "binpack", "accelkit_unit": "1GiB", "accelkit_unit_change": "refuse"}
    job = awx.run("share", {**answers, "accelkit_shared_nodes": "node-1,node-2"})
    assert (job.status, job.changed) == ("successful", 0), job.said


@pytest.mark.extended
def test_verify_returns_report(awx):
    job = awx.run("verify", {"accelkit_min_free": ""})
    assert (job.status, job.changed) == ("successful", 0), job.said
    report = job.artifacts["accelerators_report"]
    assert report["faults"] == []
    assert {name: each["cards"] for name, each in report["nodes"].items()} == {"node-1": 8, "node-2": 4}
    assert report["totals"]["capacity_bytes"] == 224 * 2**30


@pytest.mark.long
def test_verify_reports_all_faults(awx):
    given = {
        "accelkit_min_free": "20GiB",
        "scheduler_extender_weight": 7,
        "extender_url": f"http://[::1]:{free_port()}",
    }
    job = awx.run("verify", given, control_plane=("api", "master-2"))
    assert (job.status, job.changed) == ("failed", 0)
    faults = job.artifacts["accelerators_report"]["faults"]
    assert len(faults) == 4, faults
    assert faults[3].startswith("master-2: cannot connect to the host: ")
    assert "Connection refused" in faults[0]
    assert "kube-scheduler's configuration differs" in faults[1]
    assert "10 cards are inconsistent" in faults[2]
    assert job.artifacts["accelerators_report"]["totals"]["cards"] == 12
    assert all(f"fault: {fault}" in " ".join(job.said.split()) for fault in faults)


@pytest.mark.extended
def test_remove_accepts_report_of_previous_job(awx):
    """AWX gives the artifacts of a job to those that follow it in a workflow."""
    report = {"accelerators_report": {"faults": ["something"], "nodes": {}, "totals": {}}}
    job = awx.run("remove", {"accelkit_purge_logs": "false", **report})
    assert job.status == "successful", job.said
    assert job.changed > 0


def test_cache_verifies_image_if_no_host_is_named(awx, tmp_path):
    sigstore = PrivateSigstore.new()
    with hostile.HostileRegistry() as registry:
        image = caches.publish(registry.host, caches.cache_folder(tmp_path / "cache"))
        key = sigstore.key()
        policy = caches.write_policy(tmp_path, registry.host, key)
        wanted = {"image": f"{registry.host}/team/cache:v1", "state": "verified"}
        answers = {"accelkit_cache_hosts": "", "accelkit_cache_folder": "", "accelkit_cache_policy": str(policy)}
        given = {**answers, "accelkit_caches": [wanted], "accelkit_registry_plain_http": [registry.host]}
        refused = awx.run("cache", given)
        assert refused.status == "failed"
        assert "no signature" in refused.said
        caches.sign(registry.host, image, key)
        job = awx.run("cache", given)
        assert (job.status, job.changed) == ("successful", 0), job.said


def test_examples_job_succeeds(awx):
    answers = {
        "accelkit_examples_state": "undeployed",
        "accelkit_examples_set": "kind",
        "accelkit_examples_timeout": 60,
    }
    job = awx.run("examples", answers)
    assert job.status == "successful", job.said
