"""site.yml and remove.yml on three control-plane hosts, ended right after a change, and amid the switch of a host.

By default a playbook is ended after the first change of each module; with CUT_OFF_EVERYWHERE, which `make
test-cuts` sets, after every task that changes something. That a switch may end after any of its own operations
is shown by tests/unit/accelkit/scheduler/switch.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from cluster_objects import nodes, settled_nodes
from conftest import REPOSITORY, Sandbox, ansible_playbook
from control_plane_host import Down, StaticPod, make_root, read_files, until
from ports import free_port

from accelkit.kube.connection import load_connection
from accelkit.sandbox.binaries import find_binaries, find_cache_dir

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1500)]

NODES = ("master-1", "master-2", "master-3")
# Every module of the playbooks that changes something, and on removal also the one that deletes objects.
MODULES = {"node_share", "k8s", "scheduler_config"}
MOST_RUNS = 40
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
        scheduler = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=print).kube_scheduler
        connection = load_connection(sandbox.kubeconfig)
        self.roots, self.pods = {}, {}
        variables = {}
        for node in NODES:
            root, port = folder / node, free_port()
            make_root(root, scheduler, sandbox.paths.build_kubeconfig_path("kube-scheduler"), port)
            enter = folder / f"enter-{node}"
            enter.write_text(ENTER.format(root=root, words=folder / f"words-{node}"))
            enter.chmod(0o755)
            self.roots[node], self.pods[node] = root, StaticPod(node, root, port, connection, self.down)
            variables[node] = {
                "ansible_shell_executable": str(enter),
                "accelkit_node_name": node,
                "accelkit_scheduler_launch": {"kind": "static_pod"},
                "scheduler_backup_dir": "/var/lib/accelkit/backup",
            }
        groups = {"accelkit_api": {"hosts": {"sandbox": {}}}, "accelkit_control_plane": {"hosts": variables}}
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        (folder / "inventory").mkdir()
        (folder / "inventory/hosts.json").write_text(json.dumps({"all": {"children": groups, "vars": local}}))
        (folder / "inventory/group_vars").symlink_to(REPOSITORY / "inventories/sandbox/group_vars")

    def play(self, name: str, *, cut_off: Path | None = None) -> subprocess.CompletedProcess:
        """Run a playbook; with `cut_off` it ends where something changed, and notes the place in that file."""
        environ = dict(self.sandbox.environ)
        if cut_off is not None:
            environ |= {
                "ANSIBLE_CALLBACK_PLUGINS": str(Path(__file__).with_name("callbacks")),
                "ANSIBLE_CALLBACKS_ENABLED": "cut_off",
                "CUT_OFF_FILE": str(cut_off),
            }
        return ansible_playbook(name, "-i", self.folder / "inventory", environ=environ, start_new_session=True)

    def cut_off(self, name: str, stops: Path) -> list[str]:
        """Run a playbook again and again, each time ended at another change, until it reaches its end.

        Return the changes after which it was ended. A host that is lost ends a run as well.
        """
        stops.touch()
        for _ in range(MOST_RUNS):
            lost = self.lost()
            done = self.play(name, cut_off=stops)
            newly = self.lost() - lost
            if done.returncode == 0:
                assert not newly, "a play that loses a host fails"
                return stops.read_text().splitlines()
            if newly:
                (node,) = newly
                later = NODES[NODES.index(node) + 1 :]
                assert not set(later) & set(self.marked()), "the play stops at the first host in trouble"
            else:
                assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
        raise AssertionError(f"{name} never reached its end; it was ended after {stops.read_text()}")

    def lose(self, node: str, words: str) -> None:
        """Let the connection to a host end, once, right after a script with these words."""
        (self.folder / f"words-{node}").write_text(words)

    def lost(self) -> set[str]:
        """The hosts that were lost."""
        files = {node: self.folder / f"words-{node}" for node in NODES}
        return {node for node, file in files.items() if file.exists() and not file.read_text()}

    def trees(self) -> dict[str, dict]:
        return {node: read_files(root) for node, root in self.roots.items()}

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


@pytest.mark.long
async def test_repeatedly_interrupted_install_completes_and_is_removed_completely(hosts, tmp_path):
    trees, objects = hosts.trees(), await settled_nodes(hosts.sandbox, len(NODES))
    # Two hosts are lost amid their switch: when the original is recorded, and when the manifest is switched.
    hosts.lose(NODES[0], "backup/.accelkit-kube-scheduler.yaml")
    hosts.lose(NODES[1], "manifests/.accelkit-kube-scheduler.yaml")
    installs = hosts.cut_off("site.yml", tmp_path / "installs")
    assert {change.partition(":")[0] for change in installs} == MODULES
    assert hosts.lost() == {*NODES[:2]}
    assert hosts.marked() == list(NODES)
    removals = hosts.cut_off("playbooks/remove.yml", tmp_path / "removals")
    assert {change.partition(":")[0] for change in removals} == {*MODULES, "object_prune"}
    assert hosts.marked() == []
    assert hosts.trees() == trees
    assert await nodes(hosts.sandbox) == objects
    assert hosts.down.most == 1, "serial: 1 leaves the other schedulers running"
