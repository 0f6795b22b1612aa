"""site.yml, verify.yml and remove.yml on a sandbox of their own, and the modules."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from cluster_objects import (
    as_before,
    changed,
    create_pull_secret,
    find_pull_secrets,
    kubeconfig_of,
    load_yaml,
    nodes,
    objects,
    settled_nodes,
    settled_objects,
)
from conftest import BIN, PODS, REPOSITORY, Cluster, Sandbox, ansible_playbook
from support.waiting import until

from accelkit.install.run_lease import hold_run_lease
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import get_if_present

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

OURS, STAGES = "accelkit.io", "accelkit.io/stages"
ANYTHING = {"apiGroups": ["*"], "resources": ["*"]}
# Those of inventories/sandbox.
NODES = 3


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


async def test_install_verify_and_remove_restore_original_state(sandbox):
    config = Path(sandbox.facts.scheduler_config)
    await settled_nodes(sandbox, NODES)
    config_before = config.read_bytes(), config.stat().st_mode, config.stat().st_uid
    # All is done with the rights that the documents ask for, and no others.
    installer = await kubeconfig_of(sandbox, "installer", load_yaml(REPOSITORY / "playbooks/files/installer.yml"))
    given = {"accelkit_kubeconfig": str(installer), "accelkit_image_pull_secrets": ["registry"]}
    as_installer = ("-e", json.dumps(given))
    await create_pull_secret(sandbox)
    objects_before, before = await settled_objects(sandbox), await nodes(sandbox)

    assert changed(sandbox.playbook("site.yml", *as_installer).stdout) > 0
    assert await find_pull_secrets(sandbox) == ["accelkit", "default", "kube-system"]
    installed = {node["metadata"]["name"]: node for node in await nodes(sandbox)}
    assert installed["node-1"]["status"]["allocatable"]["accelkit.io/memory"] == "128"
    assert installed["node-1"]["status"]["allocatable"]["accelkit.io/cards"] == "8"
    assert "accelkit.io/share" not in installed["node-3"]["metadata"]["labels"]
    assert changed(sandbox.playbook("playbooks/verify.yml", *as_installer).stdout) == 0

    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        await cluster.create_pod("stays", memory=4)
        await cluster.running("stays")
        sandbox.playbook("playbooks/remove.yml", *as_installer)
        # A running pod keeps running; its assignment is the one thing that stays.
        assert (await cluster.get(f"{PODS}/stays"))["status"]["phase"] == "Running"
        await api.delete(f"{PODS}/stays", {"gracePeriodSeconds": 0})

    after = await nodes(sandbox)
    assert OURS not in json.dumps([node["status"].get("capacity") for node in after])
    assert after == before
    await as_before(sandbox, objects_before)
    assert (config.read_bytes(), config.stat().st_mode, config.stat().st_uid) == config_before
    assert changed(sandbox.playbook("playbooks/remove.yml").stdout) == 0


@pytest.mark.extended
async def test_check_mode_with_read_only_user_writes_nothing(sandbox):
    config = Path(sandbox.facts.scheduler_config)
    config_before = config.read_bytes()
    reader = await kubeconfig_of(sandbox, "reader", {"rules": [{**ANYTHING, "verbs": ["get", "list"]}]})
    await settled_nodes(sandbox, NODES)
    before = await settled_objects(sandbox)
    preview = sandbox.playbook("site.yml", "--check", "--diff", "-e", f"accelkit_kubeconfig={reader}")
    assert changed(preview.stdout) > 0
    assert "+  - urlPrefix" in preview.stdout or "+- urlPrefix" in preview.stdout, preview.stdout
    assert await objects(sandbox) == before
    assert config.read_bytes() == config_before


@pytest.mark.extended
async def test_a_second_run_changes_nothing(installed):
    installer = await kubeconfig_of(installed, "installer", load_yaml(REPOSITORY / "playbooks/files/installer.yml"))
    as_installer = ("-e", f"accelkit_kubeconfig={installer}")
    before = await stages(installed)
    assert changed(installed.playbook("site.yml", *as_installer).stdout) == 0
    assert changed(installed.playbook("site.yml", "--check", "--diff", *as_installer).stdout) == 0
    # Checks that passed are not repeated.
    assert await stages(installed) == before


async def stages(sandbox: Sandbox) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["annotations"].get(STAGES) for each in await nodes(sandbox)}


async def test_missing_permission_is_reported_before_any_change(sandbox):
    role = load_yaml(REPOSITORY / "playbooks/files/installer.yml")
    rules = [rule for rule in role["rules"] if "daemonsets" not in rule["resources"]]
    config = await kubeconfig_of(sandbox, "poor", {"rules": rules})
    before = await settled_objects(sandbox)
    done = sandbox.playbook("site.yml", "-e", f"accelkit_kubeconfig={config}", check=False)
    said = " ".join(done.stdout.split())
    assert "may not create daemonsets.apps in accelkit" in said
    assert "let an administrator bind it to playbooks/files/installer.yml" in said
    assert await objects(sandbox) == before


@pytest.mark.extended
async def test_concurrent_run_is_refused_with_holder_of_lease(sandbox):
    with subprocess.Popen(["sleep", "600"]) as other:
        told = asyncio.get_running_loop().create_future()
        async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
            holding = asyncio.create_task(hold_run_lease(api, "somebody@elsewhere", other.pid, told.set_result))
            since = (await told).since
            for playbook in ("site.yml", "playbooks/remove.yml"):
                done = await asyncio.to_thread(sandbox.playbook, playbook, check=False)
                assert done.returncode != 0
                sentence = (
                    f"somebody@elsewhere has been changing this cluster since {since}; wait until that run has ended"
                )
                assert sentence in " ".join(done.stdout.split())
            checked = await asyncio.to_thread(sandbox.playbook, "playbooks/remove.yml", "--check")
            assert "somebody@elsewhere has been changing this cluster" in " ".join(
                (checked.stdout + checked.stderr).split()
            )
            other.kill()
            await holding
            # Tests come in any order, and another one begins without accelkit.
            await asyncio.to_thread(sandbox.playbook, "playbooks/remove.yml")
            # The run's own Lease goes with it.
            assert await gone(api, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/accelkit-run")


async def gone(api: ApiClient, path: str) -> bool:
    return await until(lambda: get_if_present(api, path), accept=lambda found: found is None, every=0.2) is None


@pytest.mark.parametrize(
    ("inventory", "said"),
    [("inventories/sandbox", "accelkit sandbox up"), ("{folder}", "copy inventories/sample to start")],
    ids=["no sandbox", "no cluster"],
)
def test_missing_cluster_is_reported_with_next_step(tmp_path, inventory, said):
    (tmp_path / "hosts.yml").write_text("all: {hosts: {localhost: {ansible_connection: local}}}\n")
    environ = {"PATH": str(BIN), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = ansible_playbook("site.yml", "-i", inventory.format(folder=tmp_path), environ=environ, seconds=120)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr


def test_memory_info_and_memory_check_report_accounting(installed, tmp_path):
    shown = module(installed, tmp_path, "memory_info", {})
    assert {node["name"] for node in shown["inspection"]["nodes"]} == {"node-1", "node-2"}
    assert not module(installed, tmp_path, "memory_check", {}).get("failed")
    short = module(installed, tmp_path, "memory_check", {"min_free": "24GiB"})
    assert short["failed"]
    assert {finding["kind"] for finding in short["findings"]} == {"low_free"}


def module(sandbox: Sandbox, folder: Path, name: str, arguments: dict) -> dict:
    """Run a module of the collection in a play on this machine; return its result."""
    result = folder / "result.json"
    play = {
        "hosts": "sandbox",
        "gather_facts": False,
        "tasks": [
            {f"accelkit.kubernetes.{name}": {"kubeconfig": str(sandbox.kubeconfig), **arguments}}
            | {"register": "found", "ignore_errors": True},
            {"ansible.builtin.copy": {"dest": str(result), "content": "{{ found | to_json }}", "mode": "0600"}},
        ],
    }
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([play]))
    sandbox.playbook(str(playbook))
    return json.loads(result.read_text())
