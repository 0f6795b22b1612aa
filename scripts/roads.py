"""Walk the roads by which people install accelkit, each on a new kind cluster, with what is shipped; `make roads`.

Each road ends in site, verify, pods that share cards, site again without a change, removal, and a comparison of the
cluster with what it was. The nodes have no label and none is named; their cards are listed in a file, which the one
variable device_plugin_simulated lets the node agent read. Where the default base image cannot be pulled, an image of
its name is made of Debian packages.

checkout: a clone, the README's commands, the sample inventory with its kubeconfig and its registry changed
packages: wheel and collection in an empty environment, playbooks by their full names, from an empty folder
awx:      ansible-runner as AWX runs it: a credential's variables, no kubeconfig, a read-only project, no terminal
ssh:      a clone; nodes that are reached by SSH, have no Python, and import the image, since no registry answers

Usage: roads.py [--keep] ROAD…
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from e2e import BASE, find_base_image, find_problem, succeeds
from kind_cluster import KindCluster, KindError, run

REPOSITORY = Path(__file__).resolve().parent.parent
REGISTRY = os.environ.get("TESTBED_REGISTRY", "localhost:5001")
# Nothing listens there.
NO_REGISTRY = "localhost:9"
PLAYBOOK_SECONDS = 1500
SETUP_SECONDS = 900
SAMPLE_REGISTRY = "accelkit_images_registry: registry.example.org/accelkit"
SAMPLE_KUBECONFIG = "# accelkit_kubeconfig: /path/to/kubeconfig"
CARDS_FILE = "\ndevice_plugin_simulated: true\n"


@dataclass
class Traveller:
    """Somebody on a road: where they stand, and what their shell knows.

    Attributes:
        cluster: the cluster of the road.
        home: a home folder that nobody has used before; the folder of the road.
        commands: what each playbook is called, by site, verify and remove.
        folder: where the commands run.
        environment: beside PATH, HOME, the Docker daemon and pip's settings.
        kept_images: beginnings of names of images that stay on the nodes.
        inspect_options: by which `accelkit inspect` finds the cluster.
    """

    cluster: KindCluster
    home: Path
    commands: Callable[[str], list[str]] = field(init=False)
    folder: Path = field(init=False)
    environment: dict[str, str] = field(default_factory=dict)
    kept_images: tuple[str, ...] = ()
    inspect_options: tuple[str, ...] = ()

    def run(self, *command: str, seconds: float = SETUP_SECONDS) -> str:
        """Run a command as they would."""
        print(f"  $ {' '.join(command)}", flush=True)
        kept = {name: value for name, value in os.environ.items() if name == "DOCKER_HOST" or name.startswith("PIP_")}
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        venv = self.home / "venv"
        environment = {
            **kept,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": f"{venv / 'bin'}:{Path(shutil.which('docker') or '/usr/bin/docker').parent}:{system}",
            **self.environment,
        }
        log = self.home / "log"
        started = time.monotonic()
        with log.open("a+") as file:
            start = file.tell()
            try:
                code = subprocess.run(
                    command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=file,
                    stderr=subprocess.STDOUT, timeout=seconds, check=False,
                ).returncode  # fmt: skip
            except subprocess.TimeoutExpired as exc:
                raise KindError(f"it did not end within {seconds:.0f} s; its output is in {log}") from exc
            file.seek(start)
            said = file.read()
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
        if code:
            raise KindError(f"it failed with {code}:\n" + "\n".join(said.splitlines()[-60:]))
        return said

    def make_environment(self, *requirements: str) -> None:
        """Make a Python environment and install into it."""
        run(sys.executable, "-m", "venv", str(self.home / "venv"))
        self.run("pip", "install", "--quiet", "--disable-pip-version-check", *requirements)

    def play(self, playbook: str, *, changes: bool | None = None) -> None:
        """Run a playbook; `changes` says whether it has to change something, or must not."""
        said = self.run(*self.commands(playbook), seconds=PLAYBOOK_SECONDS)
        recap = said[said.rindex("PLAY RECAP") :]
        changed = sum(map(int, re.findall(r"changed=(\d+)", recap)))
        print(f"    changed={changed}", flush=True)
        if changes is not None and bool(changed) is not changes:
            raise KindError(f"{playbook} has changed={changed}:\n{said[-6000:]}")


def prepare_checkout(traveller: Traveller) -> None:
    """Clone the repository and follow the README."""
    clone_and_copy_sample(traveller, **{SAMPLE_REGISTRY: f"accelkit_images_registry: {REGISTRY}/accelkit"})
    traveller.kept_images = (f"{REGISTRY}/accelkit/",)


def prepare_packages(traveller: Traveller) -> None:
    """Install wheel and collection; there is no checkout."""
    packages = traveller.home / "packages"
    packages.mkdir()
    traveller.folder = traveller.home / "empty"
    traveller.folder.mkdir()
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(packages), str(REPOSITORY), seconds=300)
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    run(galaxy, "collection", "build", "--output-path", str(packages), str(REPOSITORY), seconds=300)
    [wheel], [tarball] = packages.glob("*.whl"), packages.glob("*.tar.gz")
    traveller.make_environment(f"{wheel}[ansible]")
    traveller.run("ansible-galaxy", "collection", "install", str(tarball))
    [installed] = traveller.home.glob(".ansible/collections/ansible_collections/accelkit/kubernetes")
    copy_sample(traveller, installed, **{SAMPLE_REGISTRY: f"accelkit_images_registry: {REGISTRY}/accelkit"})
    traveller.commands = lambda playbook: ["ansible-playbook", f"accelkit.kubernetes.{playbook}", "-i", "mine"]
    traveller.kept_images = (f"{REGISTRY}/accelkit/",)


def prepare_ssh(traveller: Traveller) -> None:
    """Start sshd on the nodes, and name the connection in the inventory."""
    key = traveller.home / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    for node in traveller.cluster.nodes:
        traveller.cluster.shell(
            node,
            f"""
            apt-get -qq update >/dev/null 2>&1
            DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y openssh-server >/dev/null 2>&1
            mkdir -p /root/.ssh /run/sshd
            echo '{key.with_suffix(".pub").read_text().strip()}' > /root/.ssh/authorized_keys
            systemctl is-active --quiet ssh || systemctl start ssh
            ! command -v python3
            """,
        )
    settings = {
        "accelkit_images_registry": f"{NO_REGISTRY}/accelkit",
        "accelkit_node_connection": "ssh",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": key,
        "ansible_ssh_common_args": f"-o StrictHostKeyChecking=no -o UserKnownHostsFile={traveller.home}/known_hosts",
    }
    lines = "\n".join(f"{name}: {value}" for name, value in settings.items())
    clone_and_copy_sample(traveller, **{SAMPLE_REGISTRY: lines})


def clone_and_copy_sample(traveller: Traveller, **changes: str) -> None:
    """Do what README and docs/installation.md say, in a clone."""
    clone = traveller.home / "clone"
    run("git", "clone", "--quiet", str(REPOSITORY), str(clone))
    traveller.folder = clone
    traveller.make_environment(".[ansible]")
    copy_sample(traveller, clone, **changes)
    files = {"site": "site.yml"}
    traveller.commands = lambda playbook: [
        *("ansible-playbook", files.get(playbook, f"playbooks/{playbook}.yml"), "-i", "mine"),
    ]


def copy_sample(traveller: Traveller, source: Path, **changes: str) -> None:
    """Copy the sample inventory and change lines of its variables, and nothing else but the cards' file."""
    mine = traveller.folder / "mine"
    shutil.copytree(source / "inventories" / "sample", mine)
    settings = mine / "group_vars" / "all.yml"
    text = settings.read_text()
    for old, new in {SAMPLE_KUBECONFIG: f"accelkit_kubeconfig: {traveller.cluster.kubeconfig}", **changes}.items():
        if old not in text:
            raise KindError(f"the sample inventory has no line {old!r} any more")
        text = text.replace(old, new)
    settings.write_text(text + CARDS_FILE)
    traveller.inspect_options = ("--kubeconfig", str(traveller.cluster.kubeconfig))


ROADS: dict[str, Callable[[Traveller], None]] = {
    "checkout": prepare_checkout,
    "packages": prepare_packages,
    "ssh": prepare_ssh,
}


def walk(road: str, *, keep: bool) -> None:
    """Walk one road from its cluster to its removal.

    Raises:
        KindError: a step failed.
    """
    home = Path(tempfile.mkdtemp(prefix=f"accelkit-road-{road}-"))
    cluster = KindCluster(f"accelkit-road-{road}", home)
    traveller = Traveller(cluster, home)
    traveller.folder = home
    reached = False
    try:
        print("  a cluster of kind, with cards", flush=True)
        cluster.create()
        ROADS[road](traveller)
        cluster.take_snapshot()
        traveller.play("site", changes=True)
        traveller.play("verify", changes=False)
        cluster.share()
        shown = traveller.run("accelkit", "inspect", *traveller.inspect_options)
        if not all(name in shown for name in ("share-4", "share-8", "share-12")):
            raise KindError(f"accelkit inspect shows other pods:\n{shown}")
        containers = cluster.list_containers()
        traveller.play("site", changes=False)
        traveller.play("verify", changes=False)
        traveller.play("remove", changes=True)
        if cluster.list_containers() != containers:
            raise KindError("a pod that shares a card was restarted")
        cluster.kubectl("delete", "pods", "--all", "--wait")
        cluster.compare_snapshot(*traveller.kept_images)
        print("  the cluster is as it was", flush=True)
        reached = True
    finally:
        if reached or not keep:
            cluster.delete()
            shutil.rmtree(home)
        else:
            print(f"  kept: {home} and the cluster; delete it by: kind delete cluster --name {cluster.name}")


def main() -> int:
    """Walk the named roads, one after the other; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roads", nargs="*", choices=[*ROADS, []], metavar="ROAD", help="default: all")
    parser.add_argument("--keep", action="store_true", help="keep cluster and folder of a road that fails")
    options = parser.parse_args()
    problem = find_problem()
    base = None if problem else find_base_image()
    if problem or base is None:
        print(f"error: {problem or 'there is no base image'}", file=sys.stderr)
        return 1
    borrowed = not succeeds("docker", "image", "inspect", BASE)
    if borrowed:
        run("docker", "tag", base, BASE)
        print(f"{BASE} cannot be pulled: {base} bears its name meanwhile")
    try:
        for road in options.roads or ROADS:
            started = time.monotonic()
            print(f"==> {road}", flush=True)
            try:
                walk(road, keep=options.keep)
            except KindError as exc:
                print(f"error: {road} ends here: {exc}", file=sys.stderr)
                return 1
            print(f"  {road}: {(time.monotonic() - started) / 60:.1f} min", flush=True)
    finally:
        if borrowed:
            run("docker", "rmi", BASE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
