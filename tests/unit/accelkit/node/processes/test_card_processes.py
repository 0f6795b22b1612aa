import os

import pytest
from support.host_processes import write_process

from accelkit.errors import DevicePluginError
from accelkit.node.processes import scan
from accelkit.node.processes.scan import CardProcess, Processes, add_nvml, find_card_processes, find_pod_uid

UID = "8d9c3f1e-4b7a-4c55-9f0e-2a6b7c8d9e0f"
OTHER = "11111111-2222-3333-4444-555555555555"
PATHS = {"a": ["/dev/dri/card0", "/dev/dri/renderD128"], "b": ["/dev/nvidia1"]}
BDFS = {"0000:03:00.0": "a"}
KIB, MIB = 2**10, 2**20


def fdinfo(client, *lines, bdf="0000:03:00.0"):
    return "\n".join(["pos:\t0", "drm-driver:\tamdgpu", f"drm-client-id:\t{client}", f"drm-pdev:\t{bdf}", *lines])


@pytest.fixture
def process(tmp_path):
    """Add a process with open files, perhaps in a pod."""

    def add(pid, files, *, pod="", command="python3"):
        cgroup = f"/kubepods/burstable/pod{pod}/c" if pod else "/system.slice/x.service"
        return write_process(tmp_path, pid, command, cgroup=cgroup, files=files)

    return add


@pytest.fixture
def look(tmp_path):
    return lambda paths=PATHS, bdfs=BDFS: find_card_processes(tmp_path, paths, bdfs)


def test_process_is_found_on_card_whose_node_is_open(process, look):
    process(7, {0: "/dev/null", 5: "/dev/nvidia1"}, pod=UID)
    process(8, {0: "/dev/null", 3: "/dev/nvidiactl"})
    assert look() == Processes((CardProcess("b", 7, "python3", UID, None),), 0)


def test_process_may_use_several_cards(process, look):
    process(7, {4: "/dev/nvidia1", 5: "/dev/dri/renderD128", 6: "/dev/nvidia1"})
    assert [(each.card, each.memory_bytes) for each in look().found] == [("a", None), ("b", None)]


def test_renamed_device_node_is_matched_by_device_number(process, look, tmp_path):
    # Two names of one character device, which everybody may look at.
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia1").symlink_to("/dev/zero")
    process(7, {5: "/dev/zero"})
    process(8, {5: "/dev/null"})
    assert [(each.card, each.pid) for each in look().found] == [("b", 7)]


def test_path_does_not_match_if_device_number_differs(process, look, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia1").symlink_to("/dev/zero")
    process(7, {5: "/dev/nvidia1"})
    assert look().found == ()


def test_regions_of_preferred_fdinfo_key_are_added(process, look):
    lines = [
        "drm-total-vram0:\t9 MiB",
        "drm-resident-vram0:\t3 MiB",
        "drm-resident-vram1:\t512",
        "drm-shared-vram0:\t1",
    ]
    process(7, {5: ("/dev/dri/renderD128", fdinfo(3, *lines))})
    assert look().found[0].memory_bytes == 3 * MIB + 512


@pytest.mark.parametrize(
    ("line", "memory_bytes"),
    [
        ("drm-resident-local0:\t1 GiB", 2**30),
        ("drm-total-vram:\t5 KiB", 5 * KIB),
        ("drm-memory-vram:\t2048 KiB\ndrm-memory-gtt:\t9 MiB", 2 * MIB),
        ("drm-resident-vram:\t0", 0),
        ("drm-resident-vram:\tmuch", None),
        ("drm-resident-vram:\t5 pages", None),
        ("drm-resident-system0:\t4 KiB", None),
    ],
)
def test_fdinfo_memory_is_read_in_bytes_or_unknown(process, look, line, memory_bytes):
    process(7, {5: ("/dev/dri/card0", fdinfo(3, line))})
    assert look().found[0].memory_bytes == memory_bytes


def test_client_with_several_open_files_counts_once(process, look):
    info = fdinfo(3, "drm-resident-vram:\t4 MiB")
    other = fdinfo(4, "drm-resident-vram:\t1 MiB")
    process(7, {5: ("/dev/dri/card0", info), 6: ("/dev/dri/renderD128", info), 9: ("/dev/dri/card0", other)})
    assert look().found[0].memory_bytes == 5 * MIB


def test_client_shared_by_processes_of_one_pod_counts_once(process, look):
    info = fdinfo(3, "drm-resident-vram:\t4 MiB")
    for pid in (12, 9):
        process(pid, {5: ("/dev/dri/card0", info)}, pod=UID)
    process(20, {5: ("/dev/dri/card0", info)}, pod=OTHER)
    assert [(each.pid, each.memory_bytes) for each in look().found] == [(9, 4 * MIB), (12, 0), (20, 4 * MIB)]


def test_card_with_unknown_nodes_is_matched_by_pci_address(process, look):
    process(7, {5: ("/dev/dri/renderD130", fdinfo(3, "drm-resident-vram:\t4 MiB"))})
    process(8, {5: ("/dev/dri/renderD131", fdinfo(3, bdf="0000:99:00.0"))})
    assert [(each.card, each.pid) for each in look(paths={}).found] == [("a", 7)]


def test_process_that_ends_during_scan_is_ignored(process, look):
    (process(7, {5: "/dev/nvidia1"}) / "cgroup").unlink()
    (process(8, {5: "/dev/nvidia1"}) / "comm").unlink()
    for file in (process(9, {5: "/dev/nvidia1"}) / "fd").iterdir():
        file.unlink()
    (process(10, {}) / "fd").rmdir()
    assert look() == Processes((), 0)


def test_unreadable_process_is_counted_and_does_not_hide_other_processes(process, look):
    folder = process(7, {})
    (folder / "fd").rmdir()
    # What cannot be listed; permissions would not stop the tests of a superuser.
    (folder / "fd").write_text("")
    process(8, {5: "/dev/nvidia1"})
    assert [each.pid for each in look().found] == [8]
    assert look().unread == 1


@pytest.mark.parametrize("shared", [True, False], ids=["one process", "many processes"])
def test_pod_with_too_many_open_files_is_reported_and_scan_continues(process, look, monkeypatch, shared):
    monkeypatch.setattr(scan, "_MAX_FILES", 10)
    for pid in (1, 2, 3):
        process(pid, dict.fromkeys(range(30 if shared else 4), "/dev/null"), pod=UID)
    process(7, {5: "/dev/nvidia1"}, pod=OTHER)
    assert look() == Processes((CardProcess("b", 7, "python3", OTHER, None),), 0, (UID,))


def test_cards_among_files_read_before_limit_are_found(process, look, monkeypatch):
    monkeypatch.setattr(scan, "_MAX_FILES", 10)
    process(7, dict.fromkeys(range(30), "/dev/nvidia1"), pod=UID)
    assert look() == Processes((CardProcess("b", 7, "python3", UID, None),), 0, (UID,))


@pytest.mark.parametrize(
    ("file_system", "asked"),
    [("tmpfs", True), ("devtmpfs", True), ("nfs4", False), ("fuse.x", False), ("overlay", False), (None, False)],
)
def test_device_number_is_read_only_on_trusted_file_systems(process, look, monkeypatch, file_system, asked):
    """An NFS server that does not answer, mounted below /dev of a container, would block the scan for good."""
    seen = []
    monkeypatch.setattr(scan, "_read_device_number", seen.append)
    folder = process(7, {5: ("/dev/mine/file", "pos:\t0\nmnt_id:\t77")}, pod=UID)
    (folder / "ns").mkdir()
    (folder / "ns/mnt").symlink_to("mnt:[1]")
    mount = f"77 60 0:50 / /dev/mine rw shared:3 - {file_system} server:/x rw\n" if file_system else ""
    (folder / "mountinfo").write_text(f"60 1 0:49 / / rw - overlay overlay rw\n{mount}")
    assert look().found == ()
    assert (folder / "fd/5" in seen) is asked


def test_missing_process_list_is_an_error(look, tmp_path):
    with pytest.raises(DevicePluginError, match="cannot list "):
        look()
    (tmp_path / "proc").mkdir()
    with pytest.raises(DevicePluginError, match="check that the host's /proc is mounted"):
        look()


def test_control_characters_in_command_are_replaced(process, look):
    process(7, {5: "/dev/nvidia1"}, command="a\x1b[2Jb")
    assert look().found[0].command == "a?[2Jb"


def test_own_process_is_found_on_its_open_device(tmp_path):
    # The kernel's own /proc, where links of `fd` lead to the open file.
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "dev").symlink_to("/dev")
    with open("/dev/full", "rb"):  # noqa: PTH123 - no more than an open file is wanted
        found = find_card_processes(tmp_path, {"full": ["/dev/full"]}, {}).found
    assert os.getpid() in [each.pid for each in found]


BELOW = UID.replace("-", "_")
STATIC = UID.replace("-", "")


@pytest.mark.parametrize(
    ("cgroup", "pod_uid"),
    [
        (f"0::/kubepods/pod{UID}/c0ffee", UID),
        (f"0::/kubepods/besteffort/pod{UID}/c0ffee", UID),
        (f"0::/kubepods.slice/kubepods-pod{BELOW}.slice/cri-containerd-c0ffee.scope", UID),
        (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{BELOW}.slice/crio-c0ffee.scope", UID),
        (f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{BELOW}.slice/c.scope", UID),
        (f"0::/system.slice/containerd.service/kubepods-burstable-pod{BELOW}.slice:cri-containerd:c0ffee", UID),
        (f"12:cpuset:/\n11:memory:/kubepods/burstable/pod{UID}/c0ffee\n1:name=systemd:/init.scope", UID),
        (f"0::/../../../burstable/pod{UID}/c0ffee", UID),
        (f"0::/kubepods/pod{STATIC}/c0ffee", STATIC),
        (f"0::/kubepods/pod{UID}", UID),
        (f"0::/kubepods/pod{UID}/c/kubelet/kubepods/pod{OTHER}/c", UID),
        ("0::/system.slice/nvidia-persistenced.service", None),
        (f"0::/user.slice/pod{UID}/c0ffee", None),
        (f"0::/kubepods/pod{UID}0/c0ffee", None),
        ("0::/", None),
        ("", None),
    ],
)
def test_pod_uid_is_read_from_cgroup_of_any_driver_and_version(cgroup, pod_uid):
    assert find_pod_uid(cgroup + "\n") == pod_uid


def test_nvml_adds_memory_and_cards_to_scanned_processes(tmp_path):
    seen = Processes((CardProcess("b", 7, "python3", UID, None), CardProcess("b", 9, "bash", UID, None)), 0)
    known = Processes((CardProcess("b", 7, "python3", UID, 5), CardProcess("b", 9, "bash", UID, None)), 0)
    assert add_nvml(tmp_path, seen, {("b", 7): 5}) == known
    assert CardProcess("a", 7, "python3", UID, 5) in add_nvml(tmp_path, seen, {("a", 7): 5}).found


def test_owner_of_process_reported_only_by_nvml_is_read_from_proc(process, tmp_path):
    process(7, {}, pod=UID)
    process(8, {})
    (tmp_path / "proc/8/cgroup").unlink()
    (tmp_path / "proc/8/cgroup").mkdir()
    assert add_nvml(tmp_path, Processes((), 1), {("a", 7): 5, ("b", 7): None, ("b", 8): 6, ("b", 9): 6}) == Processes(
        (CardProcess("a", 7, "python3", UID, 5), CardProcess("b", 7, "python3", UID, None)), 2
    )
