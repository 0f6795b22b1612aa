"""site.yml, verify.yml and remove.yml on a sandbox of their own, and the modules."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import PODS, REPOSITORY, Cluster, Sandbox

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

OURS = "accelkit.io"
# Those of inventories/sandbox.
NODES = 3
# What kubelets and controllers change all the time.
VOLATILE = (
    "managedFields",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "lastHeartbeatTime",
    "lastTransitionTime",
    "lastUpdateTime",
)
# Kinds that come and go, and Leases, which say who leads just now.
PASSING = ("Event", "ComponentStatus", "Lease")


@pytest.fixture(scope="module")
def sandbox():
    sandbox = Sandbox()
    try:
        yield sandbox
    finally:
        sandbox.down()


async def nodes(sandbox: Sandbox) -> list[dict]:
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        return [stable(node) for node in (await Cluster(api, sandbox).get("/api/v1/nodes"))["items"]]


async def settled(sandbox: Sandbox) -> list[dict]:
    """The nodes once the node controllers are done with their arrival."""
    deadline = time.monotonic() + 60
    while True:
        found = await nodes(sandbox)
        if len(found) == NODES and not any("taints" in node["spec"] for node in found):
            return found
        assert time.monotonic() < deadline, "nodes are not ready"
        await asyncio.sleep(0.2)


async def objects(sandbox: Sandbox) -> dict[str, dict]:
    """All objects of all kinds that the API server lists, whole."""
    found: dict[str, dict] = {}
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        groups = (await cluster.get("/apis"))["groups"]
        for version in ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]:
            for resource in (await cluster.get(version))["resources"]:
                if "list" not in resource["verbs"] or resource["kind"] in PASSING:
                    continue
                for item in (await cluster.get(f"{version}/{resource['name']}"))["items"]:
                    metadata = item["metadata"]
                    name = f"{version}/{resource['name']} {metadata.get('namespace', '')}/{metadata['name']}"
                    found[name] = stable(item)
    return found


async def as_before(sandbox: Sandbox, before: dict[str, dict]) -> None:
    """Wait until all objects are what they were; those in a namespace that goes take their time."""
    deadline = time.monotonic() + 60
    while (after := await objects(sandbox)) != before:
        differing = {name: (before.get(name), after.get(name)) for name in before.keys() | after.keys()}
        differing = {name: pair for name, pair in differing.items() if pair[0] != pair[1]}
        assert time.monotonic() < deadline, json.dumps(differing, indent=1)[:8000]
        await asyncio.sleep(0.5)


def stable(value):
    if isinstance(value, dict):
        return {key: stable(entry) for key, entry in value.items() if key not in VOLATILE}
    return [stable(entry) for entry in value] if isinstance(value, list) else value


def changed(output: str) -> int:
    return sum(int(count) for count in re.findall(r"changed=(\d+)", output.partition("PLAY RECAP")[2]))


async def test_install_verify_and_remove_leave_no_trace(sandbox):
    config = Path(sandbox.facts.scheduler_config)
    before, config_before = await settled(sandbox), (config.read_bytes(), config.stat().st_mode, config.stat().st_uid)
    objects_before = await objects(sandbox)

    preview = sandbox.playbook("site.yml", "--check", "--diff")
    assert changed(preview.stdout) > 0
    assert "+  - urlPrefix" in preview.stdout or "+- urlPrefix" in preview.stdout, preview.stdout
    assert await objects(sandbox) == objects_before
    assert config.read_bytes() == config_before[0]

    assert changed(sandbox.playbook("site.yml").stdout) > 0
    assert changed(sandbox.playbook("site.yml").stdout) == 0
    assert changed(sandbox.playbook("site.yml", "--check", "--diff").stdout) == 0
    installed = {node["metadata"]["name"]: node for node in await nodes(sandbox)}
    assert installed["node-1"]["status"]["allocatable"]["accelkit.io/memory"] == "128"
    assert installed["node-1"]["status"]["allocatable"]["accelkit.io/cards"] == "8"
    assert "accelkit.io/share" not in installed["node-3"]["metadata"]["labels"]
    assert changed(sandbox.playbook("playbooks/verify.yml").stdout) == 0

    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        await cluster.create_pod("stays", memory=4)
        await cluster.running("stays")
        sandbox.playbook("playbooks/remove.yml")
        # A running pod keeps running; its assignment is the one thing that stays.
        assert (await cluster.get(f"{PODS}/stays"))["status"]["phase"] == "Running"
        await api.delete(f"{PODS}/stays", {"gracePeriodSeconds": 0})

    after = await nodes(sandbox)
    assert OURS not in json.dumps([node["status"].get("capacity") for node in after])
    assert after == before
    await as_before(sandbox, objects_before)
    assert (config.read_bytes(), config.stat().st_mode, config.stat().st_uid) == config_before
    assert changed(sandbox.playbook("playbooks/remove.yml").stdout) == 0
    sandbox.playbook("site.yml")


def test_without_a_sandbox_the_playbook_says_what_to_do(tmp_path):
    command = [Path(sys.executable).parent / "ansible-playbook", "site.yml", "-i", "inventories/sandbox"]
    environ = {"PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "accelkit sandbox up" in done.stdout + done.stderr


def test_an_inventory_without_a_cluster_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "hosts.yml").write_text("all: {hosts: {localhost: {ansible_connection: local}}}\n")
    command = [Path(sys.executable).parent / "ansible-playbook", "site.yml", "-i", tmp_path]
    environ = {"PATH": str(Path(sys.executable).parent), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode != 0
    assert "start from inventories/sample" in done.stdout + done.stderr


def test_modules_show_and_check_the_accounting(installed, tmp_path):
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
