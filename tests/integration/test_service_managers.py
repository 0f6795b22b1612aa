"""kube-scheduler under a real systemd: a unit of its own, and inside services that are configured as k3s and RKE2 are.

The host is a container with systemd as its first process, and the kube-scheduler in it is the real one. k3s and RKE2
themselves cannot be built from published modules: a script stands in for them, which reads the same files by the same
rules and starts the same kube-scheduler.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import REPOSITORY, Cluster, Sandbox, ansible_playbook
from ports import free_port
from support.waiting import poll_until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.sandbox.binaries import find_binaries, find_cache_dir

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]

NAME = "managed-scheduler"
NODE = "control-plane-1"
FOLDERS = ("/etc/systemd", "/etc/kubernetes", "/etc/rancher", "/var/lib/accelkit")
CONFIGURATION = f"""\
# by hand: this comment stays
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: /etc/kubernetes/scheduler.conf
leaderElection:
  leaderElect: false
profiles:
- schedulerName: {NAME}
"""
UNIT = """\
[Unit]
Description=kube-scheduler
[Service]
ExecStart={start}
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""
# Of config.yaml and config.yaml.d/*.yaml, in the order of their names: a key replaces, a key with `+` appends. Mounts
# become links.
STAND_IN = r"""#!/bin/sh
set -e
folder=/etc/rancher/$(basename "$0")
arguments= mounts=
for file in "$folder/config.yaml" "$folder"/config.yaml.d/*.yaml; do
  [ -f "$file" ] || continue
  key=
  while IFS= read -r line; do
    case $line in
      kube-scheduler-arg:*) key=arguments arguments= ;;
      kube-scheduler-arg+:*) key=arguments ;;
      kube-scheduler-extra-mount:*) key=mounts mounts= ;;
      kube-scheduler-extra-mount+:*) key=mounts ;;
      "- "*)
        case $key in
          arguments) arguments="$arguments --${line#- }" ;;
          mounts) mounts="$mounts ${line#- }" ;;
        esac ;;
      "#"*|"") ;;
      *) key= ;;
    esac
  done < "$file"
done
for mount in $mounts; do
  host=${mount%%:*} inside=${mount#*:}
  inside=${inside%%:*}
  [ -d "$host" ]
  [ "$host" = "$inside" ] || ln -sfn "$host" "$inside"
done
/usr/local/bin/kube-scheduler --kubeconfig=/etc/kubernetes/scheduler.conf --profiling=false $arguments &
wait $!
"""


@dataclass(frozen=True)
class Form:
    """A way to start kube-scheduler: its unit, what that starts, and the files beside it."""

    unit: str
    start: str
    files: dict[str, str]


def make_forms(port: int) -> dict[str, Form]:
    options = [
        "authentication-skip-lookup=true",
        "authorization-always-allow-paths=/healthz",
        "bind-address=127.0.0.1",
        f"secure-port={port}",
    ]

    def listed(*more: str) -> str:
        return "kube-scheduler-arg:\n" + "".join(f"- {each}\n" for each in [*options, *more])

    own = "config=/etc/kubernetes/own.yaml"
    words = " \\\n  ".join(["/usr/local/bin/kube-scheduler", *(f"--{each}" for each in [*options, own])])
    mounted = listed("config=/inside/own.yaml") + "kube-scheduler-extra-mount:\n- /etc/kubernetes:/inside:ro\n"
    return {
        "systemd": Form("kube-scheduler.service", words, {}),
        "k3s": Form("k3s.service", "/usr/local/bin/k3s server", {"/etc/rancher/k3s/config.yaml": listed(own)}),
        "rke2": Form("rke2-server.service", "/usr/local/bin/rke2 server", {"/etc/rancher/rke2/config.yaml": mounted}),
    }


class Host:
    """A container with systemd as its first process, on this machine's network."""

    def __init__(self, image: str, scheduler: Path, credentials: Path) -> None:
        self.name = f"accelkit-systemd-{os.getpid()}"
        loose = [f"--security-opt={each}=unconfined" for each in ("seccomp", "apparmor")]
        mounts = [f"--tmpfs={path}" for path in ("/run", "/run/lock", "/tmp")]
        options = ["--detach", "--cap-add=SYS_ADMIN", "--network=host", "--cgroupns=private", "--env=container=docker"]
        init = "--entrypoint=/lib/systemd/systemd"
        docker("run", f"--name={self.name}", *options, *loose, *mounts, init, image)
        try:
            self._await_boot()
            docker("cp", str(scheduler.resolve()), f"{self.name}:/usr/local/bin/controlplane")
            self.run("ln", "-s", "controlplane", "/usr/local/bin/kube-scheduler")
            self.write("/etc/kubernetes/scheduler.conf", credentials.read_text())
            self.write("/etc/kubernetes/own.yaml", CONFIGURATION)
            for program in ("k3s", "rke2"):
                self.write(f"/usr/local/bin/{program}", STAND_IN)
                self.run("chmod", "755", f"/usr/local/bin/{program}")
        except BaseException:
            self.delete()
            raise

    def run(self, *command: str, check: bool = True) -> str:
        return docker("exec", self.name, *command, check=check)

    def write(self, path: str, text: str) -> None:
        script = f"mkdir -p {Path(path).parent} && cat > {path}"
        docker("exec", "--interactive", self.name, "sh", "-c", script, given=text)

    def start(self, form: Form) -> None:
        for path, text in form.files.items():
            self.write(path, text)
        self.write(f"/etc/systemd/system/{form.unit}", UNIT.format(start=form.start))
        self.run("systemctl", "daemon-reload")
        self.run("systemctl", "enable", "--now", form.unit)

    def stop(self, form: Form) -> None:
        self.run("systemctl", "disable", "--now", form.unit)
        self.run("rm", "-rf", f"/etc/systemd/system/{form.unit}", "/etc/rancher")

    def read_files(self) -> str:
        """Modes, owners and digests of what may be changed."""
        script = f"find {' '.join(FOLDERS)} -printf '%M %u %g %p %l\\n' | sort; "
        script += f"find {' '.join(FOLDERS)} -type f -exec sha256sum {{}} + | sort"
        return self.run("sh", "-c", script, check=False)

    def read_options(self) -> list[str]:
        """The words of the kube-scheduler that runs."""
        return self.run("sh", "-c", "tr '\\0' '\\n' < /proc/$(pidof kube-scheduler)/cmdline").split()

    def delete(self) -> None:
        docker("rm", "--force", "--volumes", self.name)

    def _await_boot(self) -> None:
        poll_until(
            lambda: self.run("systemctl", "is-system-running", check=False).strip(),
            accept=("running", "degraded").__contains__,
        )


def docker(*arguments: str, check: bool = True, given: str = "") -> str:
    command = ["docker", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sandbox():
    if not os.environ.get("SERVICE_MANAGERS"):
        pytest.skip("run by `make forms`, which needs Docker")
    with Sandbox("nodes: [{name: node-1, cards: [{memory: 16GiB}, {memory: 16GiB}]}]") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def host(sandbox):
    scheduler = find_binaries(os.environ, cache_dir=find_cache_dir(os.environ), report=print).kube_scheduler
    image = os.environ.get("KIND_NODE_IMAGE", "kindest/node:v1.34.0")
    host = Host(image, scheduler, sandbox.paths.build_kubeconfig_path("kube-scheduler"))
    try:
        yield host
    finally:
        host.delete()


def play(sandbox: Sandbox, inventory: Path, name: str) -> int:
    """Run a playbook; return how many tasks changed something."""
    done = ansible_playbook(name, "-i", inventory, environ=sandbox.environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return sum(int(count) for count in re.findall(r"changed=(\d+)", done.stdout.partition("PLAY RECAP")[2]))


def write_inventory(folder: Path, host: Host, kind: str) -> Path:
    """An inventory whose one control-plane host is the container, reached by docker."""
    variables = {
        "ansible_connection": "community.docker.docker",
        "ansible_host": host.name,
        "accelkit_node_name": NODE,
        "accelkit_scheduler_launch": {"kind": kind},
        "scheduler_backup_dir": "/var/lib/accelkit/backup",
    }
    local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    groups = {
        "accelkit_api": {"hosts": {"sandbox": local}},
        "accelkit_control_plane": {"hosts": {NODE: variables}},
        "accelkit_nodes": {"hosts": {"node-1": local}},
    }
    (folder / "hosts.json").write_text(json.dumps({"all": {"children": groups}}))
    (folder / "group_vars").symlink_to(REPOSITORY / "inventories/sandbox/group_vars")
    return folder


@pytest.mark.parametrize("kind", ["systemd", "k3s", "rke2"])
async def test_scheduler_of_service_is_switched_and_restored(sandbox, host, tmp_path, kind):
    form = make_forms(free_port())[kind]
    empty = host.read_files()
    host.start(form)
    try:
        await switch_and_put_back(sandbox, host, write_inventory(tmp_path, host, kind))
    finally:
        host.stop(form)
    assert host.read_files() == empty


async def switch_and_put_back(sandbox: Sandbox, host: Host, inventory: Path) -> None:
    before = host.read_files()
    assert play(sandbox, inventory, "site.yml") > 0
    assert host.read_options()[-1].startswith("--config=/etc/kubernetes/accelkit/scheduler-")
    assert play(sandbox, inventory, "site.yml") == 0
    assert play(sandbox, inventory, "playbooks/verify.yml") == 0
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        cluster = Cluster(api, sandbox)
        await cluster.create_pod("fits", memory=4, schedulerName=NAME)
        await cluster.running("fits")
        await cluster.create_pod("large", memory=20, schedulerName=NAME)
        # In the extender's words: it is this kube-scheduler that asked it.
        assert "1 insufficient accelkit.io/memory in one card" in await cluster.refused("large")
        await cluster.delete_pods()
    assert play(sandbox, inventory, "playbooks/remove.yml") > 0
    assert host.read_files() == before
    assert "accelkit" not in " ".join(host.read_options())
