import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.accelkit.kubernetes.plugins.action.node_image import ActionModule

REPOSITORY = "accelkit.io/accelkit"
WANTED = f"{REPOSITORY}:new"

# Keeps {name: digest} in a file; an archive is such a file too.
RUNTIME = """\
#!{python}
import json, pathlib, sys

store = pathlib.Path({store!r})
images = json.loads(store.read_text())
words = [word for word in sys.argv[1:] if word not in ("ctr", "-n", "k8s.io", "images", "--force", "--input")]
of_containerd = "k8s.io" in sys.argv
match words:
    case ["ls"]:
        print("REF TYPE DIGEST SIZE PLATFORMS LABELS")
        for name, digest in images.items():
            print(name, "application/vnd.oci.image.index.v1+json", digest, "1.0 MiB", "linux/amd64", "-")
    case ["--no-trunc", "--format", "{{{{.Repository}}}}:{{{{.Tag}}}} {{{{.ID}}}}"]:
        for name, digest in images.items():
            print(name, digest)
    case ["import" | "load", archive]:
        loaded = json.loads(pathlib.Path(archive).read_text())
        images |= loaded
        if of_containerd:
            images |= {{digest.replace("d", "sha256:i", 1): digest for digest in loaded.values()}}
    case ["tag", name, other]:
        images[other] = images[name]
    case ["rm" | "rmi", name]:
        del images[name]
    case _:
        sys.exit(f"cannot do {{words}}")
store.write_text(json.dumps(images))
"""


class Node:
    """A node with a shell, a container runtime and its images: {name: digest}."""

    def __init__(self, folder):
        self.programs, self.files, self._store = folder / "bin", folder / "tmp", folder / "images.json"
        self.programs.mkdir()
        self.files.mkdir()
        for name in ("mktemp", "rm"):
            (self.programs / name).symlink_to(shutil.which(name))
        self.images = {}

    @property
    def images(self):
        return json.loads(self._store.read_text())

    @images.setter
    def images(self, images):
        self._store.write_text(json.dumps(images))

    def install(self, name, script=RUNTIME):
        program = self.programs / name
        program.write_text(script.format(python=sys.executable, store=str(self._store)))
        program.chmod(0o755)

    def execute(self, command, **_):
        environ = {"PATH": str(self.programs), "TMPDIR": str(self.files)}
        done = subprocess.run(
            ["/bin/sh", "-c", command], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
        return {"rc": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.fixture
def give(node, tmp_path):
    """Run the action on the node; the archive holds these images."""

    def give(*, check=False, holds=None, without="", **arguments):
        archive = tmp_path / "the archive.tar.gz"
        archive.write_text(json.dumps({WANTED: "d-new"} if holds is None else holds))
        present = {"tag": "new", "archive": str(archive)} if arguments.get("state") != "absent" else {}
        given = {"repository": REPOSITORY, **present, **arguments}
        given.pop(without, None)
        task = SimpleNamespace(args=given, check_mode=check, async_val=0, diff=False)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="never used"))
        action = ActionModule(task, connection, None, None, None, None)
        action._low_level_execute_command = node.execute
        action._transfer_file = shutil.copyfile
        return action.run(task_vars={})

    return give


# What stands for containerd pins by digest; what stands for an engine has the tag alone.
RUNTIMES = {"ctr": f"{REPOSITORY}@d-new", "k3s": f"{REPOSITORY}@d-new", "docker": WANTED, "podman": WANTED}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_image_is_imported_once(node, give, runtime):
    node.install(runtime)
    node.images = {"busybox:1": "d-busybox"}
    assert give() == {"changed": True, "reference": RUNTIMES[runtime], "removed": []}
    images = node.images
    assert images[WANTED] == images[RUNTIMES[runtime]] == "d-new"
    assert images["busybox:1"] == "d-busybox"
    assert give() == {"changed": False, "reference": RUNTIMES[runtime], "removed": []}
    assert node.images == images
    assert list(node.files.iterdir()) == []


def test_containerd_is_preferred_to_docker(node, give):
    node.install("ctr")
    node.install("docker", "#!/bin/sh\nexit 1\n")
    assert give()["changed"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_only_other_images_of_repository_are_removed(node, give, runtime):
    node.install(runtime)
    others = {f"{REPOSITORY}-tools:old": "d-tools", "sha256:i-tools": "d-tools", "busybox:1": "d-busybox"}
    node.images = {f"{REPOSITORY}:old": "d-old", **others}
    assert give()["removed"] == [f"{REPOSITORY}:old"]
    assert f"{REPOSITORY}:old" not in node.images
    assert others.items() <= node.images.items()


@pytest.mark.parametrize(("more", "named"), [({}, ["sha256:i-old"]), ({"mirror/accelkit:old": "d-old"}, [])])
def test_config_digest_name_is_removed_unless_other_image_uses_digest(node, give, more, named):
    node.install("ctr")
    node.images = {f"{REPOSITORY}:old": "d-old", "sha256:i-old": "d-old", **more}
    assert give()["removed"] == [f"{REPOSITORY}:old", *named]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_absent_state_removes_image_with_all_names(node, give, runtime):
    node.install(runtime)
    give()
    node.images |= {"busybox:1": "d-busybox"}
    answer = give(state="absent")
    assert (answer["changed"], answer["reference"]) == (True, "")
    assert node.images == {"busybox:1": "d-busybox"}
    assert give(state="absent") == {"changed": False, "reference": "", "removed": []}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_check_mode_changes_nothing(node, give, runtime):
    node.install(runtime)
    before = {f"{REPOSITORY}:old": "d-old"}
    node.images = before
    assert give(check=True) == {"changed": True, "reference": WANTED, "removed": [f"{REPOSITORY}:old"]}
    assert node.images == before


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_archive_without_image_is_rejected_and_leaves_no_file(node, give, runtime):
    node.install(runtime)
    node.images = {f"{REPOSITORY}:old": "d-old"}
    with pytest.raises(AnsibleActionFail, match=rf"the archive\.tar\.gz does not contain the image {WANTED}"):
        give(holds={"busybox:1": "d-busybox"})
    assert node.images[f"{REPOSITORY}:old"] == "d-old"
    assert list(node.files.iterdir()) == []


def test_node_without_container_runtime_is_rejected(give):
    with pytest.raises(AnsibleActionFail, match="none of ctr, k3s, docker and podman"):
        give()


def test_node_without_temporary_files_is_rejected(node, give):
    node.install("ctr")
    (node.programs / "mktemp").unlink()
    with pytest.raises(AnsibleActionFail, match="cannot create a temporary file"):
        give()


def test_runtime_error_contains_output_of_runtime(node, give):
    node.install("docker", "#!/bin/sh\necho cannot connect to the daemon >&2\nexit 1\n")
    with pytest.raises(AnsibleActionFail, match=r"`docker images .*` failed on the node: cannot connect to the daemon"):
        give()


@pytest.mark.parametrize("missing", ["tag", "archive"])
def test_present_state_requires_tag_and_archive(node, give, missing):
    node.install("ctr")
    with pytest.raises(AnsibleActionFail, match=f"state is present but all of the following are missing: {missing}"):
        give(without=missing)
