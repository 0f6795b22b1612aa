"""site.yml and remove.yml on three control-plane hosts, ended at every task that may change something."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BIN, REPOSITORY, Cluster, Sandbox, free_port
from control_plane_host import Down, StaticPod, make_root, tree, until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.binaries import default_cache_dir, find_binaries

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

NODES = ("master-1", "master-2", "master-3")
VOLATILE = ("managedFields", "resourceVersion", "lastHeartbeatTime", "lastTransitionTime", "generation")
# Enters the host. When a script with these words has run, it ends itself and the process group, Ansible's worker.
ENTER = """\
#!/bin/sh
chroot {root} /bin/sh "$@"
status=$?
if [ -s {words} ] && printf %s "$2" | grep -qF "$(cat {words})"; then : > {words}; kill -9 0; fi
exit $status
"""


class Hosts:
    """Three hosts, and the playbooks run on them."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox, self.folder, self.down = sandbox, folder, Down()
        scheduler = find_binaries(os.environ, cache_dir=default_cache_dir(os.environ), say=print).kube_scheduler
        connection = load_connection(sandbox.kubeconfig)
        self.roots, self.pods = {}, {}
        variables = {}
        for node in NODES:
            root, port = folder / node, free_port()
            make_root(root, scheduler, sandbox.paths.kubeconfig("kube-scheduler"), port)
            enter = folder / f"enter-{node}"
            enter.write_text(ENTER.format(root=root, words=folder / f"words-{node}"))
            enter.chmod(0o755)
            self.roots[node], self.pods[node] = root, StaticPod(node, root, port, connection, self.down)
            variables[node] = {
                "ansible_shell_executable": str(enter),
                "accelkit_node_name": node,
                "accelkit_scheduler_launch": {"kind": "static_pod"},
                "accelkit_backup_dir": "/var/lib/accelkit/backup",
            }
        groups = {"accelkit_api": {"hosts": {"sandbox": {}}}, "accelkit_control_plane": {"hosts": variables}}
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        (folder / "inventory").mkdir()
        (folder / "inventory/hosts.json").write_text(json.dumps({"all": {"children": groups, "vars": local}}))
        (folder / "inventory/group_vars").symlink_to(REPOSITORY / "inventories/sandbox/group_vars")

    def play(self, name: str, *, kill_at: int | None = None) -> subprocess.CompletedProcess:
        """Run a playbook; without `kill_at` it must succeed."""
        environ = dict(self.sandbox.environ)
        if kill_at is not None:
            environ |= {
                "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callbacks")),
                "ANSIBLE_CALLBACKS_ENABLED": "kill_at",
                "KILL_AT": str(kill_at),
            }
        command = [BIN / "ansible-playbook", name, "-i", self.folder / "inventory"]
        return subprocess.run(
            command,
            cwd=REPOSITORY,
            env=environ,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            start_new_session=True,
        )

    def done(self, name: str) -> None:
        """Run a playbook to its end."""
        done = self.play(name)
        assert done.returncode == 0, done.stdout + done.stderr

    def cut_off_everywhere(self, name: str) -> int:
        """Run a playbook again and again, each time ended one task later, until it reaches its end."""
        for at in range(100):
            done = self.play(name, kill_at=at)
            if done.returncode == 0:
                return at
            assert done.returncode == -9, done.stdout + done.stderr
        raise AssertionError(f"{name} never reached its end")

    def trees(self) -> dict[str, dict]:
        return {node: tree(root) for node, root in self.roots.items()}

    def marked(self) -> list[str]:
        """The hosts whose scheduler is pointed at our configuration."""
        path = "etc/kubernetes/manifests/kube-scheduler.yaml"
        return [node for node, root in self.roots.items() if "/etc/kubernetes/accelkit/" in (root / path).read_text()]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """A sandbox whose control-plane hosts are three folders, each with its kube-scheduler."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    if not shutil.which("ldd"):
        pytest.skip("a root folder is made of programs and the libraries that ldd names")
    sandbox = Sandbox()
    started = []
    try:
        hosts = Hosts(sandbox, tmp_path_factory.mktemp("hosts"))
        for pod in hosts.pods.values():
            pod.start()
            started.append(pod)
        for node, pod in hosts.pods.items():
            until(pod.healthy, f"kube-scheduler of {node} is not healthy")
        hosts.down.most = 0
        yield hosts
    finally:
        for pod in started:
            pod.end()
        sandbox.down()


async def nodes(hosts: Hosts) -> list[dict]:
    async with ApiClient(load_connection(hosts.sandbox.kubeconfig)) as api:
        return [stable(node) for node in (await Cluster(api, hosts.sandbox).get("/api/v1/nodes"))["items"]]


def stable(value):
    if isinstance(value, dict):
        return {key: stable(entry) for key, entry in value.items() if key not in VOLATILE}
    return [stable(entry) for entry in value] if isinstance(value, list) else value


async def test_an_install_ended_at_every_task_is_finished_and_removed_without_a_trace(hosts):
    trees, objects = hosts.trees(), await nodes(hosts)
    tasks = hosts.cut_off_everywhere("site.yml")
    assert tasks >= 2 + len(NODES), "every task that changes something must have been reached"
    assert hosts.marked() == list(NODES)
    removals = hosts.cut_off_everywhere("playbooks/remove.yml")
    assert removals >= 2 + len(NODES)
    assert hosts.marked() == []
    assert hosts.trees() == trees
    assert await nodes(hosts) == objects
    assert hosts.down.most == 1, "serial: 1 leaves the other schedulers running"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("backup/.accelkit-kube-scheduler.yaml", id="recorded"),
        pytest.param("manifests/.accelkit-kube-scheduler.yaml", id="switched"),
    ],
)
def test_a_host_lost_amid_its_switch_is_finished_by_the_next_run(hosts, words):
    trees = hosts.trees()
    (hosts.folder / f"words-{NODES[1]}").write_text(words)
    done = hosts.play("site.yml")
    assert done.returncode != 0, done.stdout
    assert NODES[2] not in hosts.marked(), "the play stops at the first host in trouble"
    hosts.done("site.yml")
    assert hosts.marked() == list(NODES)
    hosts.done("playbooks/remove.yml")
    assert hosts.trees() == trees
    assert hosts.down.most == 1
