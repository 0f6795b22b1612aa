from __future__ import annotations

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

    def make(folder=CGROUPS[1], *, dmem=True):
        for each in (folder, folder.replace("8d9c3f1e", "ffffffff")):
            (tmp_path / "sys/fs/cgroup" / each).mkdir(parents=True)
            if dmem:
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
def test_a_card_is_limited_where_its_memory_is_one_region(regions, cgroup, tmp_path, names, possible):
    regions(*names)
    cgroup()
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is possible


def test_a_kernel_without_the_controller_limits_nothing(tmp_path):
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is False


@pytest.mark.parametrize("folder", CGROUPS)
def test_a_pod_is_held_to_its_share_by_its_own_cgroup_with_either_driver(regions, cgroup, tmp_path, folder):
    regions(f"drm/{BDF}/vram0")
    file = cgroup(folder)
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is True
    written = [path for path in (tmp_path / "sys/fs/cgroup").rglob("dmem.max") if path.read_text()]
    assert written == [file]
    assert file.read_text() == f"drm/{BDF}/vram0 {GIB}\n"


def test_a_region_has_the_name_that_its_driver_gave_it(regions, cgroup, tmp_path):
    regions(f"drm/{BDF}/vram")
    file = cgroup()
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is True
    assert file.read_text() == f"drm/{BDF}/vram {GIB}\n"


def test_a_limit_that_the_kernel_did_not_take_does_not_hold(regions, cgroup, tmp_path):
    regions(f"drm/{BDF}/vram0")
    file = cgroup()
    file.unlink()
    # Takes every write, and shows none of it.
    file.symlink_to("/dev/null")
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is False


def test_without_the_controller_in_the_pods_cgroup_nothing_is_written(regions, cgroup, tmp_path):
    regions(f"drm/{BDF}/vram0")
    file = cgroup(dmem=False)
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is False
    assert not file.exists()


def test_one_card_that_cannot_be_limited_leaves_the_pod_advisory(regions, cgroup, tmp_path):
    regions(f"drm/{BDF}/vram0")
    cgroup()
    assert limit_pod(tmp_path, UID, {BDF: GIB, SECOND: GIB}) is False


@pytest.mark.parametrize("uid", ["", "*", "../../x", "ffffffff-ffff-ffff-ffff-ffffffffffff"])
def test_a_pod_without_a_cgroup_is_advisory(regions, cgroup, tmp_path, uid):
    regions(f"drm/{BDF}/vram0")
    cgroup()
    assert limit_pod(tmp_path, uid, {BDF: GIB}) is False


def test_a_pod_without_shares_is_not_called_enforced(regions, cgroup, tmp_path):
    regions(f"drm/{BDF}/vram0")
    cgroup()
    assert limit_pod(tmp_path, UID, {}) is False


def test_a_write_that_the_kernel_refuses_is_no_error(regions, cgroup, tmp_path):
    regions(f"drm/{BDF}/vram0")
    file = cgroup()
    file.unlink()
    file.symlink_to("/dev/full")
    assert limit_pod(tmp_path, UID, {BDF: GIB}) is False
