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


def test_container_root_contains_only_its_mounts(node):
    root = mount(node, pod_of({"main": {"/host/sys": "sys"}}, host("/sys", "Directory"), host("/etc")))
    folder = node.joinpath(root.translate("/host"))
    assert [each.name for each in folder.iterdir()] == ["sys"]
    assert (folder / "sys/bus/a").is_file()


def test_empty_dir_is_shared_by_containers_until_pod_ends(node):
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
def test_host_path_of_wrong_type_is_refused(node, path, kind, what):
    with pytest.raises(SandboxError, match=what):
        mount(node, pod_of({"main": {"/x": path.strip("/").replace("/", "-")}}, host(path, kind)))


@pytest.mark.parametrize("kind", ["", "DirectoryOrCreate"])
def test_missing_host_directory_is_created_and_preserved(node, kind):
    pod = pod_of({"main": {"/logs": "var-log-x"}}, host("/var/log/x", kind))
    mount(node, pod)
    PodVolumes(node, pod).remove()
    assert (node / "var/log/x").is_dir()


def test_nested_mount_of_same_host_directory_is_accepted(node):
    pod = pod_of(
        {"main": {"/host/sys/fs/cgroup": "sys-fs-cgroup", "/host/sys": "sys"}}, host("/sys"), host("/sys/fs/cgroup")
    )
    assert node.joinpath(mount(node, pod).place("/host/sys/fs/cgroup/b")).is_file()


def test_nested_mount_of_other_directory_is_refused(node):
    pod = pod_of({"main": {"/host": "sys", "/host/bus": "etc"}}, host("/sys"), host("/etc"))
    with pytest.raises(SandboxError, match="is inside another mount"):
        mount(node, pod)
    assert [each.name for each in (node / "sys/bus").iterdir()] == ["a"]


def test_unsupported_volume_type_is_refused(node):
    with pytest.raises(SandboxError, match="only hostPath, emptyDir and service accounts"):
        mount(node, pod_of({"main": {"/x": "secret"}}, Volume(name="secret")))


def test_mounted_node_socket_is_reachable(node):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(node / "s"))
        root = mount(node, pod_of({"main": {"/s": "s"}}, host("/s", "Socket")))
        assert node.joinpath(root.place("/s")).is_socket()


def test_container_has_only_its_allocated_devices(node):
    for name in ("gcu0", "gcu1", "dri/renderD128"):
        (node / "dev" / name).parent.mkdir(parents=True, exist_ok=True)
        (node / "dev" / name).touch()
    (container,) = pod_of({"main": {}}).spec.containers
    given = ["/dev/gcu0", "/dev/dri/renderD128", "/dev/absent"]
    root = PodVolumes(node, pod_of({"main": {}})).mount(container, given)
    seen = node.joinpath(root.translate("/dev"))
    names = {str(path.relative_to(seen)) for path in seen.rglob("*")}
    assert names == {"gcu0", "dri", "dri/renderD128", "termination-log"}


def test_termination_log_is_not_created_in_mounted_dev_directory(node):
    (node / "dev").mkdir()
    root = mount(node, pod_of({"main": {"/dev": "dev"}}, host("/dev", "Directory")))
    assert node.joinpath(root.translate("/dev")).resolve() == (node / "dev").resolve()
    assert list((node / "dev").iterdir()) == []
