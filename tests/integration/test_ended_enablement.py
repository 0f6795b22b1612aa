"""site.yml with all of enablement: a preview writes nothing; whatever it was ended after, remove.yml leaves nothing."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cluster_objects import as_before, changed, kubeconfig_of, nodes, objects, settled_nodes, settled_objects
from conftest import Sandbox, ansible_playbook

from accelkit.sandbox.fake_host.host import FakeHost

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3600)]

NODES = """
nodes:
  - {name: node-1, cards: [{count: 2, memory: 16GiB}]}
  - name: node-2
    kernel: 6.1.0-18-amd64
    system: Debian GNU/Linux 12 (bookworm)
    labels: {feature.node.kubernetes.io/pci-1e36.present: "true"}
"""
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-a-user", "namespace": "default"}}
IMAGE = "registry.invalid/enflame:${KERNEL_FULL_VERSION}"
# By part, in whose tasks' names it is found.
PARTS = {
    "drivers": "drivers|driver :",
    "manifests of users": "the manifests of",
    "monitoring": "monitoring",
    "partitioning": "partitioning",
    "remediation": "remediation",
    "checks": "stages :",
}
MOST_RUNS = 25
READING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(NODES) as sandbox:
        FakeHost(sandbox.paths.nodes / "node-2", name="node-2").add("enflame", 1, "S60")
        yield sandbox


def build_settings(folder: Path) -> dict[str, object]:
    """Settings that have site.yml do all of enablement."""
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(MANIFEST))
    return {
        "accelkit_driver_mode": "container",
        "accelkit_driver_vendors": {"enflame": {"image": IMAGE, "module": "enflame"}},
        "driver_look_for_images": False,
        "accelkit_stage_manifests": {"device-plugin": [str(manifest)]},
        "accelkit_monitoring": "true",
        "accelkit_partitioning": {
            "hard": {"enabled": True, "nodes": ["node-1"]},
            "soft": {"enabled": True},
            "quotas": [{"namespace": "default", "hard": {"accelkit.io/memory": 8}}],
            "roles": {"training": ["node-1"]},
            "pools": {"all": ["node-1", "node-2"]},
        },
        "accelkit_remediation": {"mode": "on"},
    }


def install(sandbox: Sandbox, settings: dict[str, object], ended: Path) -> subprocess.CompletedProcess:
    """Run site.yml until it is ended after a change that the file does not name yet, or to its end."""
    environ = {
        **sandbox.environ,
        "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callbacks")),
        "ANSIBLE_CALLBACKS_ENABLED": "cut_off",
        "CUT_OFF_EVERYWHERE": "1",
        "CUT_OFF_FILE": str(ended),
        "CUT_OFF_TASKS": "|".join(PARTS.values()),
    }
    arguments = ("site.yml", "-i", "inventories/sandbox", "-e", json.dumps(settings))
    return ansible_playbook(*arguments, environ=environ, start_new_session=True)


async def test_check_mode_reports_each_part_without_write_permission(sandbox, tmp_path):
    await settled_nodes(sandbox, 2)
    reader = await kubeconfig_of(sandbox, "reader", {"rules": [READING]})
    before, settings = await settled_objects(sandbox), build_settings(tmp_path)
    given = json.dumps({**settings, "accelkit_kubeconfig": str(reader)})
    preview = sandbox.playbook("site.yml", "--check", "--diff", "-e", given).stdout
    assert changed(preview) > 0
    # What each part would make: objects by their names, labels and taints of nodes.
    for shown in ("accelkit-driver-", "of-a-user", "accelkit-monitoring", "accelkit-high", "accelkit-remediation"):
        assert shown in preview, shown
    assert await objects(sandbox) == before


async def test_removal_is_complete_after_interrupted_enablement(sandbox, tmp_path):
    await settled_nodes(sandbox, 2)
    objects_before, before = await settled_objects(sandbox), await nodes(sandbox)
    settings, ended = build_settings(tmp_path), tmp_path / "ended"
    ended.touch()
    for _ in range(MOST_RUNS):
        done = install(sandbox, settings, ended)
        assert done.returncode in {0, -signal.SIGKILL}, done.stdout + done.stderr
        sandbox.playbook("playbooks/remove.yml", "-e", json.dumps(settings))
        await as_before(sandbox, objects_before)
        assert await nodes(sandbox) == before, ended.read_text().splitlines()[-1:]
        if done.returncode == 0:
            break
    places = ended.read_text()
    missing = [part for part, words in PARTS.items() if not re.search(words, places)]
    assert not missing, f"site.yml was ended after none of their changes: {missing}; but after\n{places}"
