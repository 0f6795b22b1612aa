"""What pods made in their copies is counted, whatever they put there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelkit.cacheagent.scanning import walk
from accelkit.cacheagent.scanning.document import CopyReport
from accelkit.cacheagent.scanning.walk import scan_copies
from accelkit.cli import main
from accelkit.gkm.names import name_private_copy
from accelkit.kernelcache.extraction.private_copy import MARKER

UID, OTHER = "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
VOLUME = name_private_copy("kernels")
LONG_AGO = 1_600_000_000_000_000_000
NOW = LONG_AGO + 10**12
TRITON = "A" * 52


class Pods:
    """The kubelet's folder of pods."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def copy(self, uid: str = UID, volume: str = VOLUME, *, filled: bool = True) -> Path:
        path = self.folder / uid / "volumes" / "kubernetes.io~empty-dir" / volume
        path.mkdir(parents=True)
        if filled:
            self.put(path / MARKER, NOW)
        return path

    def put(self, path: Path, at: int = NOW + 10**9) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, ns=(at, at))

    def scan(self) -> CopyReport:
        scan = scan_copies(self.folder)
        assert not scan.left_out
        (report,) = scan.reports
        return report


@pytest.fixture
def pods(tmp_path) -> Pods:
    (tmp_path / "pods").mkdir()
    return Pods(tmp_path / "pods")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (f"{TRITON}/k.cubin", "triton"),
        (f"{'a-_Z9' * 8}xyz/k.cubin", "triton"),
        (f"torch_compile_cache/edf531ca35/rank_0_0/inductor_cache/{TRITON}/k", "vllm"),
        ("torch_compile_cache/torch_aot_compile/abc/rank_0_0/model", "vllm"),
        ("deep_gemm/cache/kernel.x/kernel.cubin", "other"),
        ("\udcff\udcfe\n/\x1b[31m", "other"),
        ("x" * 255, "other"),
        (f"{TRITON}/k.lock", ""),
        (f"{TRITON}/tmp.pid_7_abc/k.cubin", "triton"),
        (f"{TRITON}/.k.tmp", ""),
        ("m/__pycache__/a.cpython-312.pyc", ""),
    ],
)
def test_files_newer_than_private_copy_are_counted_by_kind(pods, path, kind):
    copy = pods.copy()
    pods.put(copy / "torch_compile_cache" / "old" / "k", LONG_AGO)
    pods.put(copy / path)
    found = pods.scan()
    assert {each: getattr(found, each) for each in ("triton", "vllm", "other")} == {
        **dict.fromkeys(("triton", "vllm", "other"), 0),
        **({kind: 1} if kind else {}),
    }
    assert (found.pod, found.volume, found.bounded) == (UID, VOLUME, False)


@pytest.mark.parametrize(
    ("old", "new", "folders"),
    [
        ((), ("torch_compile_cache/k1/a", "torch_compile_cache/k1/b", "torch_compile_cache/k2/a"), 2),
        (("torch_compile_cache/k1/a",), ("torch_compile_cache/k1/b",), 0),
        (("torch_compile_cache/k1/a",), ("torch_compile_cache/torch_aot_compile/k2/b",), 1),
        (("torch_compile_cache/k1/a",), (f"{TRITON}/k",), 0),
    ],
)
def test_new_vllm_folders_are_counted(pods, old, new, folders):
    copy = pods.copy()
    for path in old:
        pods.put(copy / path, LONG_AGO)
    for path in new:
        pods.put(copy / path)
    assert pods.scan().new_folders == folders


def _links(copy: Path, outside: Path) -> None:
    (copy / "out").symlink_to(outside)
    (copy / "file").symlink_to(outside / "secret")
    (copy / "round").symlink_to(".")


def _fifo(copy: Path, _: Path) -> None:
    os.mkfifo(copy / "fifo")


def _socket(copy: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as each:
        here = Path.cwd()
        os.chdir(copy)
        try:
            each.bind("s")
        finally:
            os.chdir(here)


def _hard_link(copy: Path, outside: Path) -> None:
    # It is as old as what it names: a link makes nothing new.
    (copy / "hard").hardlink_to(outside / "secret")


def _unreadable(copy: Path, _: Path) -> None:
    (copy / "closed").mkdir(mode=0o000)


@pytest.mark.parametrize("lie", [_links, _fifo, _socket, _hard_link, _unreadable])
def test_links_and_special_files_are_not_followed_or_counted(pods, tmp_path, lie):
    outside = tmp_path / "outside"
    pods.put(outside / "secret", LONG_AGO)
    pods.put(outside / "newer")
    lie(pods.copy(), outside)
    found = pods.scan()
    assert (found.triton, found.vllm, found.other) == (0, 0, 0)


@pytest.mark.parametrize("level", [UID, f"{UID}/volumes", f"{UID}/volumes/kubernetes.io~empty-dir", "copy"])
def test_private_copy_below_link_is_not_scanned(pods, tmp_path, level):
    copy = pods.copy()
    pods.put(copy / "k")
    path = copy if level == "copy" else pods.folder / level
    path.rename(tmp_path / "moved")
    path.symlink_to(tmp_path / "moved")
    assert not scan_copies(pods.folder).reports


def _delete(marker: Path) -> None:
    marker.unlink()


def _link(marker: Path) -> None:
    marker.unlink()
    marker.symlink_to("/etc/passwd")


def _folder(marker: Path) -> None:
    marker.unlink()
    marker.mkdir()


@pytest.mark.parametrize("lie", [_delete, _link, _folder])
def test_private_copy_without_marker_is_not_measured(pods, lie):
    copy = pods.copy()
    pods.put(copy / "k")
    lie(copy / MARKER)
    scan = scan_copies(pods.folder)
    assert (scan.reports, scan.unfilled, scan.closed) == ([], 1, 0)


@pytest.mark.parametrize("name", ["accelkit-cache-", "accelkit-cache-UPPER", "data", "accelkit-cache-a\nb"])
def test_other_volumes_are_not_scanned(pods, name):
    pods.put(pods.copy(volume=name) / "k")
    pods.copy(uid="not-a-uid")
    assert not scan_copies(pods.folder).reports


def test_scan_depth_and_entries_are_bounded_and_reported(pods, monkeypatch):
    monkeypatch.setattr(walk, "_MAX_ENTRIES", 50)
    deep = pods.copy()
    pods.put(deep / "/".join(["d"] * 60) / "k")
    assert pods.scan().bounded
    many = pods.copy(OTHER)
    for number in range(200):
        pods.put(many / f"f{number}")
    found = {each.pod: each for each in scan_copies(pods.folder).reports}[OTHER]
    assert found.bounded
    assert 0 < found.other <= 50


def test_pod_with_many_files_does_not_block_scan_of_other_pods(pods, monkeypatch):
    monkeypatch.setattr(walk, "_MAX_ALL_ENTRIES", 100)
    monkeypatch.setattr(walk, "_LEAST_ENTRIES", 10)
    for number in range(5):
        copy = pods.copy(volume=f"{VOLUME}-{number}")
        for each in range(100):
            pods.put(copy / f"f{each}")
    pods.put(pods.copy(OTHER) / "k")
    reports = scan_copies(pods.folder).reports
    assert [(each.other, each.bounded) for each in reports if each.pod == OTHER] == [(1, False)]
    assert all(each.bounded for each in reports if each.pod == UID)


def test_private_copies_beyond_limit_are_counted_as_omitted(pods, monkeypatch):
    monkeypatch.setattr(walk, "MAX_COPIES", 35)
    for number in range(40):
        pods.copy(volume=f"{VOLUME}-{number}")
    for number in range(10):
        pods.copy(OTHER, f"{VOLUME}-{number}")
    scan = scan_copies(pods.folder)
    assert (len(scan.reports), scan.left_out) == (35, 8 + 7)


def test_folder_replaced_by_link_during_scan_is_not_followed(pods, tmp_path, monkeypatch):
    copy, outside = pods.copy(), tmp_path / "outside"
    for number in range(3):
        pods.put(outside / f"secret{number}")
    pods.put(copy / "sub" / "k")
    real = os.stat

    def swap(path, **given):
        found = real(path, **given)
        if path == "sub" and not (copy / "sub").is_symlink():
            (copy / "sub").rename(copy / "away")
            (copy / "sub").symlink_to(outside)
        return found

    monkeypatch.setattr(walk.os, "stat", swap)
    report = pods.scan()
    assert (copy / "sub").is_symlink()
    assert report.other <= 1


def test_file_deleted_during_scan_is_not_counted(pods, monkeypatch):
    copy = pods.copy()
    for number in range(5):
        pods.put(copy / f"f{number}")
    real = os.stat

    def vanish(path, **given):
        if path == "f3":
            raise FileNotFoundError
        return real(path, **given)

    monkeypatch.setattr(walk.os, "stat", vanish)
    assert pods.scan().other == 4


def test_new_private_copy_has_no_misses_until_workload_writes(pods, tmp_path):
    cache = tmp_path / "cache"
    for name in ("k.cubin", "k.json"):
        pods.put(cache / TRITON / name, LONG_AGO)
    # Made long after the image, as where it was extracted a moment ago.
    (cache / TRITON / "__grp__k.json").write_text('{"child_paths": {"k.cubin": "/build/x/k.cubin"}}')
    copy = pods.copy(filled=False)
    arguments = ["cache", "private-copy", "--from", str(cache), "--to", str(copy), "--mount-path", "/elsewhere"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert (copy / MARKER).is_file()
    found = pods.scan()
    assert (found.triton, found.other, found.new_folders) == (0, 0, 0)
    (copy / ("B" * 52)).mkdir()
    (copy / ("B" * 52) / "k.cubin").write_bytes(b"compiled anew")
    (copy / TRITON / "k.json").write_bytes(b"and this is written over")
    # Times of a machine may be coarse; whoever writes later is later.
    assert pods.scan().triton == 2


def test_future_times_and_mode_changes_are_not_misses(pods):
    copy = pods.copy(filled=False)
    pods.put(copy / TRITON / "ahead", NOW + 10**18)
    pods.put(copy / TRITON / "owned", LONG_AGO)
    then = (copy / TRITON / "owned").stat().st_ctime_ns
    # Times of a machine are coarse.
    while not (copy / MARKER).exists() or (copy / MARKER).stat().st_ctime_ns <= then:
        pods.put(copy / MARKER, NOW)
    (copy / TRITON / "owned").chmod(0o600)
    assert pods.scan().triton == 0


def test_missing_pods_folder_is_error(tmp_path):
    with pytest.raises(OSError, match="gone"):
        scan_copies(tmp_path / "gone")
