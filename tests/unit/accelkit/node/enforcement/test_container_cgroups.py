import pytest

from accelkit.node.enforcement.cgroups import find_container_cgroup

UID = "8d9c3f1e-4b7a-4c55-9f0e-2a6b7c8d9e0f"
ID = "c0ffee" + 58 * "0"
SLICE = f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice"
FOLDER = f"kubepods/burstable/pod{UID}"


@pytest.fixture
def cgroup(tmp_path):
    """Make a cgroup, with a process in it where `pid` names one."""

    def make(folder, pid=""):
        path = tmp_path / "sys/fs/cgroup" / folder
        path.mkdir(parents=True)
        for each in (path, *path.parents):
            if each.is_relative_to(tmp_path / "sys/fs/cgroup") and not (each / "cgroup.procs").exists():
                (each / "cgroup.procs").write_text("")
        (path / "cgroup.procs").write_text(pid)
        return path

    return make


@pytest.mark.parametrize(
    ("leaf", "runtime"),
    [
        (f"{SLICE}/cri-containerd-{ID}.scope", "containerd"),
        (f"{FOLDER}/{ID}", "containerd"),
        (f"{SLICE}/crio-{ID}.scope", "cri-o"),
        (f"{FOLDER}/crio-{ID}", "cri-o"),
        (f"{SLICE}/crio-{ID}.scope/container", "cri-o"),
        (f"{SLICE}/docker-{ID}.scope", "docker"),
    ],
)
def test_container_cgroup_is_found_for_any_runtime_and_cgroup_driver(cgroup, tmp_path, leaf, runtime):
    above = leaf.removesuffix("/container").rpartition("/")[0]
    cgroup(f"{above}/crio-conmon-{ID}.scope", "7")
    cgroup(f"{above}/{64 * 'f'}", "8")
    own = cgroup(leaf, "9")
    assert find_container_cgroup(tmp_path, UID, f"{runtime}://{ID}") == own


def test_cgroups_below_container_cgroup_are_ignored(cgroup, tmp_path):
    own = cgroup(f"{FOLDER}/{ID}", "9")
    cgroup(f"{FOLDER}/{ID}/init.scope", "10")
    assert find_container_cgroup(tmp_path, UID, f"containerd://{ID}") == own


@pytest.mark.parametrize(
    "container_id", ["", "containerd://", f"containerd://../{ID}", "containerd://*", f"x://{ID[:-1]}1"]
)
def test_a_missing_container_has_no_cgroup(cgroup, tmp_path, container_id):
    cgroup(f"{FOLDER}/{ID}", "9")
    assert find_container_cgroup(tmp_path, UID, container_id) is None
    assert find_container_cgroup(tmp_path, UID.replace("8", "9"), f"containerd://{ID}") is None
