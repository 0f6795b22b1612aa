"""A container sees the mounts of its manifest, and nothing else of its node."""

import socket

import pytest

from accelkit.errors import SandboxError
from accelkit.sandbox.kubelet.pods.volumes import PodVolumes
from accelkit.sandbox.kubelet.wire import Container, EmptyDir, HostPath, Pod, PodMeta, PodSpec, Volume, VolumeMount


def host(path, kind=""):
    return Volume(name=path.strip("/").replace("/", "-"), host_path=HostPath(path=path, type=kind))


def pod_of(containers, *volumes):
    """A pod whose containers mount these volumes: by container, paths by the volume's name."""
    made = [
        Container(name=name, volume_mounts=[VolumeMount(name=of, mount_path=path) for path, of in mounts.items()])
        for name, mounts in containers.items()
    ]
    return Pod(metadata=PodMeta(name="p", uid="u-1"), spec=PodSpec(containers=made, volumes=list(volumes)))


def mount(root, pod, name="main"):
    (container,) = [each for each in pod.spec.containers if each.name == name]
    return PodVolumes(root, pod).mount(container)


@pytest.fixture
def node(tmp_path):
    for file in ("sys/bus/a", "sys/fs/cgroup/b", "etc/shadow"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    return tmp_path


def test_a_container_sees_its_mounts_and_no_more_of_its_node(node):
    root = mount(node, pod_of({"main": {"/host/sys": "sys"}}, host("/sys", "Directory"), host("/etc")))
    folder = node.joinpath(root.translate("/host"))
    assert [each.name for each in folder.iterdir()] == ["sys"]
    assert (folder / "sys/bus/a").is_file()


def test_two_containers_share_an_empty_folder_of_their_pod_until_it_ends(node):
    pod = pod_of(
        {"one": {"/out": "shared"}, "two": {"/host/etc": "shared"}}, Volume(name="shared", empty_dir=EmptyDir())
    )
    one, two = (mount(node, pod, name) for name in ("one", "two"))
    node.joinpath(one.place("/out/file")).write_text("seen")
    seen = node.joinpath(two.place("/host/etc/file"))
    assert seen.read_text() == "seen"
    # A container that is restarted finds its pod's folder as it was.
    assert node.joinpath(mount(node, pod, "one").place("/out/file")).read_text() == "seen"
    PodVolumes(node, pod).remove()
    assert not seen.exists()
    assert list((node / "run").iterdir()) == list((node / "var/lib/kubelet/pods").iterdir()) == []
    assert (node / "etc/shadow").exists()


@pytest.mark.parametrize(
    ("path", "kind", "what"),
    [
        ("/etc/none", "Directory", "is not a folder"),
        ("/etc/shadow", "Directory", "is not a folder"),
        ("/etc/none", "File", "is not a file"),
        ("/etc", "File", "is not a file"),
        ("/etc/shadow", "Socket", "is not a socket"),
    ],
)
def test_a_host_path_that_is_not_what_the_manifest_says_is_refused(node, path, kind, what):
    with pytest.raises(SandboxError, match=what):
        mount(node, pod_of({"main": {"/x": path.strip("/").replace("/", "-")}}, host(path, kind)))


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate"])
def test_a_folder_that_is_missing_is_made_and_stays(node, kind):
    pod = pod_of({"main": {"/logs": "var-log-x"}}, host("/var/log/x", kind))
    mount(node, pod)
    PodVolumes(node, pod).remove()
    assert (node / "var/log/x").is_dir()


def test_what_another_mount_shows_already_needs_no_link(node):
    pod = pod_of(
        {"main": {"/host/sys/fs/cgroup": "sys-fs-cgroup", "/host/sys": "sys"}}, host("/sys"), host("/sys/fs/cgroup")
    )
    assert node.joinpath(mount(node, pod).place("/host/sys/fs/cgroup/b")).is_file()


def test_another_folder_within_a_mount_is_refused_and_touches_nothing(node):
    pod = pod_of({"main": {"/host": "sys", "/host/bus": "etc"}}, host("/sys"), host("/etc"))
    with pytest.raises(SandboxError, match="is inside another mount"):
        mount(node, pod)
    assert [each.name for each in (node / "sys/bus").iterdir()] == ["a"]


def test_a_volume_of_another_kind_is_refused(node):
    with pytest.raises(SandboxError, match="only hostPath, emptyDir and service accounts"):
        mount(node, pod_of({"main": {"/x": "secret"}}, Volume(name="secret")))


def test_a_socket_of_the_node_can_be_reached(node):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(node / "s"))
        root = mount(node, pod_of({"main": {"/s": "s"}}, host("/s", "Socket")))
        assert node.joinpath(root.place("/s")).is_socket()


def test_a_container_sees_the_devices_that_it_was_given_and_no_others(node):
    for name in ("gcu0", "gcu1", "dri/renderD128"):
        (node / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (node / "dev" / name).touch()
    (container,) = pod_of({"main": {}}).spec.containers
    given = ["/dev/gcu0", "/dev/dri/renderD128", "/dev/absent"]
    root = PodVolumes(node, pod_of({"main": {}})).mount(container, given)
    seen = node.joinpath(root.translate("/dev"))
    names = {str(path.relative_to(seen)) for path in seen.rglob("*")}
    assert names == {"gcu0", "dri", "dri/renderD128", "termination-log"}


def test_what_a_container_says_last_lies_in_no_mount(node):
    (node / "dev").mkdir()
    root = mount(node, pod_of({"main": {"/dev": "dev"}}, host("/dev", "Directory")))
    assert node.joinpath(root.translate("/dev")).resolve() == (node / "dev").resolve()
    assert list((node / "dev").iterdir()) == []
