from pathlib import Path

import pytest

from accelkit.node.enforcement.dmem import limit_pod

BDF, SECOND = "0000:03:00.0", "0000:83:00.0"
UID = "8d9c3f1e-4b7a-4c55-9f0e-2a6b7c8d9e0f"
BELOW = UID.replace("-", "_")
GIB = 2**30

CGROUPS = [
    f"kubepods/pod{UID}",
    f"kubepods/burstable/pod{UID}",
    f"kubelet/kubepods/besteffort/pod{UID}",
    f"kubepods.slice/kubepods-pod{BELOW}.slice",
    f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{BELOW}.slice",
    f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{BELOW}.slice",
]


@pytest.fixture
def cgroup(tmp_path):
    """Make a pod's cgroup, beside that of another pod."""

    def make(folder=CGROUPS[1]):
        for each in (folder, folder.replace("8d9c3f1e", "ffffffff")):
            (tmp_path / "sys/fs/cgroup" / each).mkdir(parents=True)
            (tmp_path / "sys/fs/cgroup" / each / "dmem.max").write_text("")
        return tmp_path / "sys/fs/cgroup" / folder / "dmem.max"

    return make


@pytest.fixture
def regions(tmp_path):
    def write(*names):
        file = tmp_path / "sys/fs/cgroup/dmem.capacity"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{name} {16 * GIB}\n" for name in names))

    return write


@pytest.mark.parametrize(
    ("names", "possible"),
    [
        ([f"drm/{BDF}/vram0", f"drm/{BDF}/stolen"], True),
        ([f"drm/{BDF}/vram", f"drm/{SECOND}/vram"], True),
        ([f"drm/{BDF}/vram0", f"drm/{BDF}/vram1"], False),
        ([f"drm/{SECOND}/vram0"], False),
        ([], False),
    ],
)
def test_card_is_limited_if_its_memory_is_one_dmem_region(regions, cgroup, tmp_path, names, possible):
    regions(*names)
    cgroup()
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is possible


def test_kernel_without_dmem_sets_no_limit(tmp_path):
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is False


@pytest.mark.parametrize("region", ["vram0", "vram"])
@pytest.mark.parametrize("folder", CGROUPS)
def test_pod_is_limited_in_its_cgroup_with_any_cgroup_driver(regions, cgroup, tmp_path, folder, region):
    regions(f"drm/{BDF}/{region}")
    file = cgroup(folder)
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is True
    written = [path for path in (tmp_path / "sys/fs/cgroup").rglob("dmem.max") if path.read_text()]
    assert written == [file]
    assert file.read_text() == f"drm/{BDF}/{region} {GIB}\n"


def replaced_by(target):
    """Replace the file of the limits by another one."""

    def replace(file):
        file.unlink()
        file.symlink_to(target)

    return replace


@pytest.mark.parametrize(
    ("spoil", "uid", "shares"),
    [
        # Accepts every write, and returns nothing of it.
        (replaced_by("/dev/null"), UID, {BDF: GIB}),
        (replaced_by("/dev/full"), UID, {BDF: GIB}),
        (Path.unlink, UID, {BDF: GIB}),
        (Path.read_text, UID, {BDF: GIB, SECOND: GIB}),
        (Path.read_text, UID, {}),
        *((Path.read_text, uid, {BDF: GIB}) for uid in ("", "*", "../../x", "ffffffff-ffff-ffff-ffff-ffffffffffff")),
    ],
    ids=[
        *("not taken", "refused", "cgroup without the controller", "one card that cannot be limited", "no shares"),
        *("no uid", "pattern", "path", "pod without a cgroup"),
    ],
)
def test_partly_limited_pod_is_not_enforced(cgroup, tmp_path, spoil, uid, shares):
    file = cgroup()
    spoil(file)
    (tmp_path / "sys/fs/cgroup/dmem.capacity").write_text(f"drm/{BDF}/vram0 {16 * GIB}\n")
    there = file.exists()
    assert limit_pod(tmp_path, uid, shares) is False
    assert file.exists() is there
