"""The roads by which people install accelkit: what each does before its first playbook."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from base_image import MIRROR
from kind_cluster import KindCluster, KindError, run

REPOSITORY = Path(__file__).resolve().parent.parent
REGISTRY = os.environ.get("ACCELKIT_REGISTRY", "localhost:5001")
# Nothing listens there.
NO_REGISTRY = "localhost:9"
PLAYBOOK_SECONDS = 1500
SETUP_SECONDS = 900
NOBODY = 65534
SAMPLE_REGISTRY = "accelkit_images_registry: registry.example.org/accelkit"
SAMPLE_KUBECONFIG = "# accelkit_kubeconfig: /path/to/kubeconfig"
# kind's nodes lack what packages need to be configured, so these are only unpacked.
START_SSHD = """
. /etc/os-release
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} $VERSION_CODENAME main" > /tmp/mirror.list
apt-get -qq -o Dir::Etc::sourcelist=/tmp/mirror.list update
apt-get -qq -o Dir::Etc::sourcelist=/tmp/mirror.list install -y --download-only --no-install-recommends openssh-server
dpkg --unpack /var/cache/apt/archives/*.deb > /dev/null
grep -q ^sshd: /etc/passwd || echo sshd:x:150:65534::/run/sshd:/usr/sbin/nologin >> /etc/passwd
mkdir -p /root/.ssh /run/sshd
echo '{key}' > /root/.ssh/authorized_keys
cp /usr/share/openssh/sshd_config /etc/ssh/
ssh-keygen -A
/usr/sbin/sshd
! command -v python3
"""


@dataclass
class Traveller:
    """User who follows an installation guide: the cluster, the directories and the commands of their shell.

    Attributes:
        cluster: the cluster of the road.
        home: an unused home directory; the directory of the guide.
        commands: what each playbook is called, by site, verify and remove.
        folder: where the commands run.
        environment: beside PATH, HOME, the Docker daemon and pip's settings.
        kept_images: beginnings of names of images that stay on the nodes.
        inspect_options: by which `accelkit inspect` finds the cluster.
        check: the command that shows what site would change, and changes nothing.
        python: what makes their environment.
        venv: their Python environment, there or yet to be made.
    """

    cluster: KindCluster
    home: Path
    commands: Callable[[str], Sequence[str]] = field(init=False)
    folder: Path = field(init=False)
    environment: dict[str, str] = field(default_factory=dict)
    kept_images: tuple[str, ...] = ()
    inspect_options: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    python: str = sys.executable
    venv: Path = field(init=False)

    def __post_init__(self) -> None:
        """Set the home folder, in which the Python environment is created."""
        self.folder, self.venv = self.home, self.home / "venv"

    def run(self, *command: str, seconds: float = SETUP_SECONDS) -> str:
        """Run a command as they would."""
        print(f"  $ {' '.join(command)}", flush=True)
        kept = {name: value for name, value in os.environ.items() if name == "DOCKER_HOST" or name.startswith("PIP_")}
        system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        docker = Path(shutil.which("docker") or "/usr/bin/docker").parent
        environment = {
            **kept,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PATH": f"{self.venv}/bin:{sys.base_prefix}/bin:{docker}:{system}",
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
            output = file.read()
        print(f"    {time.monotonic() - started:.0f} s", flush=True)
        if code:
            raise KindError(f"it failed with {code}:\n" + "\n".join(output.splitlines()[-60:]))
        return output

    def make_environment(self, *requirements: str) -> None:
        """Make a Python environment and install into it."""
        if self.python == sys.executable:
            run(self.python, "-m", "venv", str(self.venv))
            self.run("pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
        else:
            # A system's own Python may lack pip.
            run(self.python, "-m", "venv", "--without-pip", str(self.venv))
            pip = (sys.executable, "-m", "pip", "--python", str(self.venv / "bin" / "python"))
            run(*pip, "install", "--quiet", "pip", *requirements, seconds=SETUP_SECONDS)

    def play(self, playbook: str, *, changes: bool | None = None) -> None:
        """Run a playbook; `changes` says whether it has to change something, or must not."""
        output = self.run(*self.commands(playbook), seconds=PLAYBOOK_SECONDS)
        recap = output[output.rindex("PLAY RECAP") :]
        changed = sum(map(int, re.findall(r"changed=(\d+)", recap)))
        print(f"    changed={changed}", flush=True)
        if changes is not None and bool(changed) is not changes:
            raise KindError(f"{playbook} has changed={changed}:\n{output[-6000:]}")


def prepare_checkout(traveller: Traveller) -> None:
    """Follow docs/how-to/installation.md in a clone."""
    follow_document(traveller, {"accelkit_images_registry": f"{REGISTRY}/accelkit"})
    traveller.kept_images = (f"{REGISTRY}/accelkit/",)


def prepare_packages(traveller: Traveller) -> None:
    """Install wheel and collection; there is no checkout."""
    installed = install_packages(traveller)
    shutil.copytree(installed / "inventories" / "sample", traveller.folder / "mine")
    adapt_sample(traveller, traveller.folder / "mine", {"accelkit_images_registry": f"{REGISTRY}/accelkit"})
    traveller.commands = lambda playbook: ["ansible-playbook", f"accelkit.kubernetes.{playbook}", "-i", "mine"]


def install_packages(traveller: Traveller, *more: str) -> Path:
    """Build wheel and collection and install them, and more; return the collection's folder."""
    packages = traveller.home / "packages"
    packages.mkdir()
    traveller.folder = traveller.home / "empty"
    traveller.folder.mkdir()
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(packages), str(REPOSITORY), seconds=300)
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    run(galaxy, "collection", "build", "--output-path", str(packages), str(REPOSITORY), seconds=300)
    # In place of the index, on which a release will be.
    traveller.environment = {"PIP_FIND_LINKS": str(packages)}
    [wheel], [tarball] = packages.glob("*.whl"), packages.glob("*.tar.gz")
    traveller.make_environment(f"{wheel}[ansible]", *more)
    traveller.run("ansible-galaxy", "collection", "install", str(tarball))
    [installed] = traveller.home.glob(".ansible/collections/ansible_collections/accelkit/kubernetes")
    traveller.kept_images = (f"{REGISTRY}/accelkit/",)
    return installed


def prepare_awx(traveller: Traveller) -> None:
    """Install what the execution environment holds; the project, the inventory and the credential come from AWX."""
    traveller.python = find_common_python()
    install_packages(traveller, "ansible-runner")
    image = build_image(traveller)
    job = traveller.home / "job"
    shutil.copytree(REPOSITORY / "awx" / "project", job / "project")
    shutil.copytree(job / "project" / "inventory", job / "inventory")
    (job / "env").mkdir()
    # Variables of the inventory, and an answer of the survey.
    extra = {"accelkit_cluster": "kubernetes", "accelkit_image": image, "accelkit_policy": ""}
    (job / "env" / "extravars").write_text(json.dumps(extra))
    traveller.environment |= {
        **make_credential(traveller.cluster, job / "ca.crt"),
        "ANSIBLE_COLLECTIONS_PATH": str(traveller.home / ".ansible" / "collections"),
        "ANSIBLE_HOME": str(job / "ansible"),
        "ANSIBLE_REMOTE_TMP": str(job / "ansible" / "tmp"),
        "HOME": "/nonexistent",
    }
    run("chmod", "0755", str(traveller.home))
    run("chown", "--recursive", f"{NOBODY}:{NOBODY}", str(job))
    run("chown", "--recursive", "root:root", str(job / "project"))
    names = {"site": "share"}
    as_nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    traveller.commands = lambda playbook: [
        *(*as_nobody, "ansible-runner", "run", str(job), "--playbook", f"{names.get(playbook, playbook)}.yml"),
    ]
    # The rights of the installation are not those to inspect.
    traveller.inspect_options = ("--kubeconfig", str(traveller.cluster.kubeconfig))


def find_common_python() -> str:
    """Return an interpreter that any user can run, for commands of an unprivileged user."""
    for candidate in (Path(sys.executable).resolve(), Path("/usr/bin/python3")):
        if candidate.is_file() and all(folder.stat().st_mode & 0o001 for folder in candidate.parents):
            return str(candidate)
    raise KindError(f"other users may not run {sys.executable}, and there is no /usr/bin/python3")


def build_image(traveller: Traveller) -> str:
    """Build and push the image, which must exist before AWX runs; return its reference."""
    playbook = traveller.folder / "image.yml"
    role = {"name": "accelkit.kubernetes.images"}
    tasks = [
        {"ansible.builtin.include_role": role, "vars": {"images_registry": f"{REGISTRY}/accelkit"}},
        {"ansible.builtin.debug": {"msg": "reference={{ images_reference }}="}},
    ]
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    output = traveller.run("ansible-playbook", str(playbook), "-e", f"images_source={REPOSITORY}")
    return str(re.findall(r"reference=(\S+)=", output)[-1])


def make_credential(cluster: KindCluster, authority: Path) -> dict[str, str]:
    """Make a user with the rights of the installation; return what AWX's credential puts into the environment."""
    cluster.kubectl("apply", "--filename", str(REPOSITORY / "playbooks/files/installer.yml"))
    cluster.kubectl("create", "serviceaccount", "installer", "--namespace=default")
    account = "--serviceaccount=default:installer"
    cluster.kubectl("create", "clusterrolebinding", "installer", "--clusterrole=accelkit-installer", account)
    view = json.loads(cluster.kubectl("config", "view", "--raw", "--output=json"))["clusters"][0]["cluster"]
    authority.write_bytes(base64.b64decode(view["certificate-authority-data"]))
    token = cluster.kubectl("create", "token", "installer", "--namespace=default", "--duration=3h").strip()
    return {
        "K8S_AUTH_HOST": view["server"],
        "K8S_AUTH_API_KEY": token,
        "K8S_AUTH_VERIFY_SSL": "True",
        "K8S_AUTH_SSL_CA_CERT": str(authority),
    }


def prepare_ssh(traveller: Traveller) -> None:
    """Start sshd on the nodes, and name the connection in the inventory."""
    key = traveller.home / "key"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    for node in traveller.cluster.nodes:
        traveller.cluster.shell(node, START_SSHD.format(mirror=MIRROR, key=key.with_suffix(".pub").read_text().strip()))
    settings = {
        "accelkit_images_registry": f"{NO_REGISTRY}/accelkit",
        "accelkit_node_connection": "ssh",
        "ansible_user": "root",
        "ansible_ssh_private_key_file": key,
        "ansible_ssh_common_args": f"-o StrictHostKeyChecking=no -o UserKnownHostsFile={traveller.home}/known_hosts",
    }
    follow_document(traveller, settings)


def follow_document(traveller: Traveller, settings: Mapping[str, object]) -> None:
    """Run the first commands of docs/how-to/installation.md, word for word, in a clone."""
    clone = traveller.home / "clone"
    run("git", "clone", "--quiet", str(REPOSITORY), str(clone))
    traveller.folder, traveller.venv = clone, clone / ".venv"
    block = (clone / "docs/how-to/installation.md").read_text().split("```console\n")[1].partition("```")[0]
    install, copy, traveller.check, *playbooks = (("bash", "-ec", line) for line in block.splitlines())
    traveller.run(*install)
    traveller.run(*copy)
    adapt_sample(traveller, clone / "inventories" / "mine", settings)
    commands = dict(zip(("site", "verify", "remove"), playbooks, strict=True))
    traveller.commands = commands.__getitem__


def adapt_sample(traveller: Traveller, inventory: Path, settings: Mapping[str, object]) -> None:
    """Name the kubeconfig in a copy of the sample inventory, put settings in place of its registry, and no more."""
    file = inventory / "group_vars" / "all.yml"
    text = file.read_text()
    lines = "\n".join(f"{name}: {value}" for name, value in settings.items())
    changes = {SAMPLE_KUBECONFIG: f"accelkit_kubeconfig: {traveller.cluster.kubeconfig}", SAMPLE_REGISTRY: lines}
    for old, new in changes.items():
        if old not in text:
            raise KindError(f"the sample inventory has no line {old!r} any more")
        text = text.replace(old, new)
    file.write_text(text)
    traveller.inspect_options = ("--kubeconfig", str(traveller.cluster.kubeconfig))


ROADS: dict[str, Callable[[Traveller], None]] = {
    "checkout": prepare_checkout,
    "packages": prepare_packages,
    "awx": prepare_awx,
    "ssh": prepare_ssh,
}
