from __future__ import annotations

import pytest

from accelkit.model.card import Card
from accelkit.node.device_plugin.enforcement import (
    MPS_PIPE_DIRECTORY,
    build_mps_environment,
    find_enforcement,
    limit_pod,
    list_mps_mounts,
)
from accelkit.node.discovery import FoundCard
from accelkit.vendors.profiles import load_profiles

BDF, SECOND = "0000:03:00.0", "0000:83:00.0"
UID = "8d9c3f1e-4b7a-4c55-9f0e-2a6b7c8d9e0f"
BELOW = UID.replace("-", "_")
MIB, GIB = 2**20, 2**30


def card(vendor="nvidia", uuid="GPU-abcd1234-1"):
    return FoundCard(Card(uuid, vendor, "m", 16 * GIB), 0, 0, load_profiles()[vendor], uuid=uuid)


@pytest.fixture
def daemon(tmp_path):
    """A control daemon of MPS with process id 42, in the folder that its clients find it by."""

    def start(folder="tmp/nvidia-mps", *, command="nvidia-cuda-mps", environ="PATH=/bin\0"):
        pipes, process = tmp_path / folder, tmp_path / "proc/42"
        pipes.mkdir(parents=True)
        process.mkdir(parents=True)
        (pipes / "control").touch()
        (pipes / "nvidia-cuda-mps-control.pid").write_text("42\n")
        (process / "comm").write_text(f"{command}\n")
        (process / "environ").write_text(environ)
        return pipes

    return start


def test_shares_of_a_card_are_enforced_by_an_mps_daemon_that_runs(daemon, tmp_path):
    daemon()
    assert find_enforcement(tmp_path, card()) == "mps"
    assert find_enforcement(tmp_path, card("amd")) is None


def test_without_a_daemon_shares_are_advisory(tmp_path):
    assert find_enforcement(tmp_path, card()) is None


def test_a_daemon_may_have_its_pipes_elsewhere(daemon, tmp_path):
    daemon("run/mps")
    assert find_enforcement(tmp_path, card()) is None
    assert find_enforcement(tmp_path, card(), pipe_directory="/run/mps") == "mps"


def test_what_a_dead_daemon_left_enforces_nothing(daemon, tmp_path):
    daemon(command="bash")
    assert find_enforcement(tmp_path, card()) is None


@pytest.mark.parametrize("missing", ["control", "nvidia-cuda-mps-control.pid"])
def test_a_daemon_that_has_not_yet_made_its_pipes_enforces_nothing(daemon, tmp_path, missing):
    (daemon() / missing).unlink()
    assert find_enforcement(tmp_path, card()) is None


@pytest.mark.parametrize(
    ("visible", "found"),
    [("GPU-abcd1234-1", "mps"), ("GPU-ffff,GPU-abcd", "mps"), ("GPU-ffff", None), ("0,1", None), ("", None)],
)
def test_a_daemon_enforces_shares_of_the_cards_that_it_surely_serves(daemon, tmp_path, visible, found):
    daemon(environ=f"PATH=/bin\0CUDA_VISIBLE_DEVICES={visible}\0")
    assert find_enforcement(tmp_path, card()) == found


def test_a_daemon_whose_cards_cannot_be_read_enforces_nothing(daemon, tmp_path):
    daemon()
    (tmp_path / "proc/42/environ").unlink()
    assert find_enforcement(tmp_path, card()) is None


def test_a_client_of_mps_is_told_its_limits_in_the_order_of_pci_addresses():
    assert build_mps_environment({SECOND: GIB, BDF: 8 * GIB}) == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M,1=1024M",
        "CUDA_MPS_PIPE_DIRECTORY": MPS_PIPE_DIRECTORY,
    }


@pytest.mark.parametrize(("amount", "limit"), [(2 * MIB - 1, "0=1M"), (100_000_000, "0=95M"), (1, "0=1M")])
def test_a_limit_is_rounded_down_but_never_to_nothing(amount, limit):
    assert build_mps_environment({BDF: amount})["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == limit


def test_a_client_of_mps_reaches_the_daemon_by_its_own_path():
    assert build_mps_environment({BDF: GIB}, pipe_directory="/run/mps")["CUDA_MPS_PIPE_DIRECTORY"] == "/run/mps"
    assert list_mps_mounts("/run/mps") == ("/run/mps", "/dev/shm")


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
