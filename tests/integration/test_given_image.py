"""`accelkit_images_archive`: playbooks/images.yml takes an image that was built elsewhere, and builds none."""

from __future__ import annotations

import io
import json
import os
import sys
import tarfile
from pathlib import Path

import pytest
from conftest import REPOSITORY, ansible_playbook

pytestmark = pytest.mark.integration

GIVEN = "accelkit.io/accelkit:0.1.0-given"
PUSHED = "registry.example.org/team/accelkit"
DIGEST = f"sha256:{'5f' * 32}"

# Note their calls. That of containerd keeps {name: digest}, as archives name them; that of docker pushes.
CONTAINERD = """\
#!{python}
import json, pathlib, sys, tarfile

folder = pathlib.Path({folder!r})
store = folder / "images.json"
images = json.loads(store.read_text()) if store.is_file() else {{}}
words = sys.argv[4:]
match words:
    case ["ls"]:
        print("REF TYPE DIGEST SIZE PLATFORMS LABELS")
        for name, digest in images.items():
            print(name, "application/vnd.oci.image.index.v1+json", digest, "1.0 MiB", "linux/amd64", "-")
    case ["import", archive]:
        with tarfile.open(archive) as opened:
            [entry] = json.load(opened.extractfile("manifest.json"))
        images |= dict.fromkeys(entry["RepoTags"], {digest!r})
    case ["tag", "--force", name, other]:
        images[other] = images[name]
    case _:
        sys.exit(f"cannot do {{words}}")
store.write_text(json.dumps(images))
"""
DOCKER = """\
#!{python}
import pathlib, sys

with (pathlib.Path({folder!r}) / "docker.txt").open("a") as calls:
    print(*sys.argv[1:], file=calls)
match sys.argv[1:]:
    case ["version"] | ["load", "--input", _] | ["tag", _, _]:
        pass
    case ["push", _]:
        print("0123456789ab: Pushed")
    case ["image", "inspect", *_]:
        print({pushed!r} + "@" + {digest!r})
    case words:
        sys.exit(f"cannot do {{words}}")
"""


class Machine:
    """A controller that is its only node, with programs that note what they are asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        for name, script in {"ctr": CONTAINERD, "docker": DOCKER}.items():
            program = folder / "bin" / name
            program.write_text(
                script.format(python=sys.executable, folder=str(folder), digest=DIGEST, pushed=PUSHED), encoding="utf-8"
            )
            program.chmod(0o755)
        local = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        groups = {
            group: {"hosts": {host: {}}} for group, host in {"accelkit_api": "api", "accelkit_nodes": "n"}.items()
        }
        (folder / "hosts.json").write_text(json.dumps({"all": {"children": groups, "vars": local}}))
        show = {"ansible.builtin.copy": {"content": "{{ __accelkit_image }}", "dest": str(folder / "reference")}}
        plays = [
            {"import_playbook": str(REPOSITORY / "playbooks" / "images.yml")},
            {"hosts": "accelkit_api", "gather_facts": False, "tasks": [show]},
        ]
        (folder / "play.json").write_text(json.dumps(plays))

    def write_archive(self, *tags: str) -> Path:
        """Write what `docker save` writes, as far as it is read before a container runtime imports it."""
        manifest = json.dumps([{"RepoTags": list(tags)}]).encode()
        with tarfile.open(self.folder / "image.tar.gz", "w:gz") as archive:
            member = tarfile.TarInfo("manifest.json")
            member.size = len(manifest)
            archive.addfile(member, io.BytesIO(manifest))
        return self.folder / "image.tar.gz"

    def play(self, archive: Path, **given: str) -> tuple[int, str]:
        """Run images.yml; return the exit status and what it says."""
        given = {"accelkit_images_archive": str(archive), **given}
        arguments = (self.folder / "play.json", "-i", self.folder / "hosts.json", "-e", json.dumps(given))
        environ = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        done = ansible_playbook(*arguments, environ={**environ, "ANSIBLE_NOCOLOR": "1"}, seconds=100)
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    @property
    def images(self) -> dict:
        return json.loads((self.folder / "images.json").read_text())

    @property
    def reference(self) -> str:
        return (self.folder / "reference").read_text()

    @property
    def asked_of_docker(self) -> list[str]:
        calls = self.folder / "docker.txt"
        return [line.split()[0] for line in calls.read_text().splitlines()] if calls.is_file() else []


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_archive_is_imported_on_nodes_without_build(machine):
    status, said = machine.play(machine.write_archive(GIVEN))
    assert status == 0, said
    pinned = f"accelkit.io/accelkit@{DIGEST}"
    assert machine.images == {GIVEN: DIGEST, pinned: DIGEST}
    assert machine.reference == pinned
    assert machine.asked_of_docker == []
    status, said = machine.play(machine.write_archive(GIVEN))
    assert "changed=0" in said.rpartition("RECAP")[2].partition("n :")[2], said


def test_archive_is_pushed_to_configured_registry(machine):
    status, said = machine.play(machine.write_archive(GIVEN), accelkit_images_registry="registry.example.org/team")
    assert status == 0, said
    assert machine.reference == f"{PUSHED}@{DIGEST}"
    assert machine.asked_of_docker == ["version", "load", "tag", "push", "image"]
    assert not (machine.folder / "images.json").exists()


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        (["elsewhere.io/x:1"], "contains elsewhere.io/x:1, but nodes use accelkit.io/accelkit"),
        ([], "contains an image without a name, but nodes use accelkit.io/accelkit"),
        (None, "is not an image archive"),
    ],
)
def test_unrelated_archive_is_rejected(machine, tags, sentence):
    archive = machine.folder / "nothing" if tags is None else machine.write_archive(*tags)
    if tags is None:
        archive.write_text("no archive")
    status, said = machine.play(archive)
    assert status != 0
    assert sentence in said
    assert machine.asked_of_docker == []
