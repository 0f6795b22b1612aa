"""Private copies: whole or begun anew, writable for their pod, and nothing from elsewhere in them."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelkit.cli import main
from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import private_copy
from accelkit.kernelcache.extraction.private_copy import MARKER, make_private_copy
from accelkit.kernelcache.formats.relocation.moved_tree import MovedTree

LONG_AGO = 1_600_000_000_123_456_789
GROUP = {"child_paths": {"k.cubin": "/build/hash/k.cubin", "k.json": "/build/hash/k.json"}}


@pytest.fixture
def cache(tmp_path):
    """A cache that cannot be written to, as nodes have it."""
    root = tmp_path / "cache"
    (root / "hash").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "hash" / "__grp__k.json").write_text(json.dumps(GROUP))
    (root / "hash" / "k.cubin").write_bytes(os.urandom(300_000))
    (root / "hash" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "top").write_bytes(b"")
    for path in (*root.rglob("*"), root):
        path.chmod(0o555 if path.is_dir() or path.name == "run.sh" else 0o444)
        os.utime(path, ns=(LONG_AGO, LONG_AGO))
    yield root
    for path in (root, *(each for each in root.rglob("*") if each.is_dir())):
        path.chmod(0o755)


@pytest.fixture
def target(tmp_path):
    """An emptyDir."""
    folder = tmp_path / "copy"
    folder.mkdir()
    return folder


def content(folder: Path) -> dict[str, bytes | None]:
    """What is in a folder, without marks of the copy itself."""
    return {
        each.relative_to(folder).as_posix(): None if each.is_dir() else each.read_bytes()
        for each in folder.rglob("*")
        if not each.name.startswith(".accelkit")
    }


def test_copy_has_all_files_world_writable_with_original_times(cache, target):
    done = make_private_copy(cache, target)
    assert content(target) == content(cache)
    assert (done.files, done.size_bytes, done.skipped) == (
        4,
        sum(len(each or b"") for each in content(cache).values()),
        0,
    )
    modes = {path.relative_to(target).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in target.rglob("[!.]*")}
    assert modes == {
        "hash": 0o777,
        "empty": 0o777,
        "top": 0o666,
        "hash/__grp__k.json": 0o666,
        "hash/k.cubin": 0o666,
        "hash/run.sh": 0o777,
    }
    assert {path.stat().st_mtime_ns for path in target.rglob("[!.]*")} == {LONG_AGO}


def test_complete_copy_keeps_changes_of_workload(cache, target):
    first = make_private_copy(cache, target)
    (target / "hash" / "k.cubin").write_bytes(b"mine")
    (target / "top").unlink()
    (target / "new").write_bytes(b"compiled")
    assert make_private_copy(cache, target) == first
    assert (target / "hash" / "k.cubin").read_bytes() == b"mine"
    assert not (target / "top").exists()


def test_incomplete_copy_is_started_again(cache, target, monkeypatch):
    def break_off(*_arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(private_copy, "_copy_content", break_off)
        with pytest.raises(OSError, match="No space left"):
            make_private_copy(cache, target)
    assert not (target / MARKER).exists()
    (target / "half").write_bytes(b"left over")
    make_private_copy(cache, target)
    assert content(target) == content(cache)


@pytest.mark.parametrize("closed", [MARKER, "."])
def test_copy_that_workload_made_unreadable_is_kept(cache, target, monkeypatch, closed):
    make_private_copy(cache, target)
    (target / "top").write_bytes(b"mine")
    read = Path.read_bytes

    def refuse(path):
        if path.parent == target and closed in {path.name, "."}:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    # Root, as whom tests may run, is refused nothing.
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert make_private_copy(cache, target) is None
    done = CliRunner().invoke(main, ["cache", "private-copy", "--from", str(cache), "--to", str(target)])
    assert (done.exit_code, done.output) == (0, f"the workload has restricted access to the copy in {target}\n")
    monkeypatch.undo()
    assert (target / "top").read_bytes() == b"mine"


def test_copy_preserves_time_order_of_ninja_outputs(cache, target):
    folder = cache / "hash"
    folder.chmod(0o755)
    order = ["op.cu", "op.o", "op.so", "vllm_compile_cache.py", ".ninja_log"]
    for number, name in enumerate(order):
        (folder / name).write_text("{}" if name.endswith(".py") else name)
        os.utime(folder / name, (1_750_000_000, 1_750_000_000 + number))
    make_private_copy(cache, target, MovedTree("/seen"))
    seen = [(target / "hash" / name).stat().st_mtime_ns for name in order]
    assert seen == [(1_750_000_000 + number) * 1_000_000_000 for number in range(len(order))]
    marker = (target / MARKER).stat().st_mtime_ns
    assert marker > max(seen)


@pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not on PATH")
def test_ninja_has_no_work_to_do_in_copy(cache, target):
    folder = cache / "hash"
    folder.chmod(0o755)
    (folder / "op.cu").write_text("source")
    (folder / "build.ninja").write_text("rule cc\n  command = cat $in > $out\nbuild op.so: cc op.cu\n")
    os.utime(folder / "op.cu", (1_750_000_000, 1_750_000_000))
    assert "no work" not in ninja(folder)
    make_private_copy(cache, target)
    assert "no work" in ninja(target / "hash", "-n")
    # As it would be without the times.
    os.utime(target / "hash" / "op.cu")
    assert "no work" not in ninja(target / "hash", "-n")


def ninja(folder: Path, *options: str) -> str:
    done = subprocess.run(["ninja", "-C", folder, *options], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.parametrize("name", ["data", ".hidden"])
def test_folder_with_unexpected_files_is_not_modified(cache, target, name):
    (target / name).write_bytes(b"somebody's")
    with pytest.raises(CacheError, match="but no unfinished copy"):
        make_private_copy(cache, target)
    assert (target / name).read_bytes() == b"somebody's"


def test_lost_and_found_folders_are_ignored_in_source_and_target(cache, target):
    (target / "lost+found").mkdir()
    cache.chmod(0o755)
    (cache / "lost+found").mkdir(mode=0)
    assert make_private_copy(cache, target).files == 4


def test_copy_omits_internal_folder_of_filled_volume(cache, target, monkeypatch):
    # As in the volumes of `accelkit cache fill`: another user's lock, which root alone could read besides.
    cache.chmod(0o755)
    (cache / ".accelkit").mkdir()
    lock = cache / ".accelkit" / ".sha256-0123.lock"
    lock.touch(mode=0o600)
    opened = os.open

    def refuse(path, *arguments, **options):
        if Path(path) == lock:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    done = make_private_copy(cache, target)
    assert (done.files, done.skipped) == (4, 0)
    assert not (target / ".accelkit").exists()


def test_links_and_pipes_are_skipped_and_counted(cache, target, tmp_path):
    (tmp_path / "secret").write_bytes(b"elsewhere")
    cache.chmod(0o755)
    (cache / "file").symlink_to(tmp_path / "secret")
    (cache / "folder").symlink_to(tmp_path)
    os.mkfifo(cache / "pipe")
    done = make_private_copy(cache, target)
    assert done.skipped == 3
    assert not {"file", "folder", "pipe"} & set(content(target))


@pytest.mark.parametrize("missing", ["shared blocks", "copies within the kernel"])
def test_copy_falls_back_if_copy_file_range_fails_or_copies_nothing(cache, target, monkeypatch, missing):
    if missing == "copies within the kernel":

        def refuse(*_arguments):
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "copy_file_range", refuse)
    else:
        monkeypatch.setattr(os, "copy_file_range", lambda *_arguments: 0)
    make_private_copy(cache, target)
    assert content(target) == content(cache)


def test_group_files_reference_files_of_copy(cache, target):
    make_private_copy(cache, target, MovedTree("/seen"))
    group = json.loads((target / "hash" / "__grp__k.json").read_text())
    assert group["child_paths"] == {"k.cubin": "/seen/hash/k.cubin", "k.json": "/seen/hash/k.json"}
    assert (target / "hash" / "__grp__k.json").stat().st_mtime_ns == LONG_AGO


def test_group_files_reference_mount_path_of_their_tree(cache, target):
    make_private_copy(cache, target, MovedTree("/seen", {"hash": "/root/.triton"}))
    group = json.loads((target / "hash" / "__grp__k.json").read_text())
    assert group["child_paths"]["k.cubin"] == "/root/.triton/k.cubin"


def test_vllm_index_is_relocated_and_index_with_missing_file_is_rejected(cache, target):
    cache.chmod(0o755)
    listed = cache / "vllm_compile_cache.py"
    listed.write_text("{(None, 0, 'inductor'): ('key', '/build/hash/k.cubin')}\n")
    make_private_copy(cache, target, MovedTree("/seen"))
    assert "'/seen/hash/k.cubin'" in (target / listed.name).read_text()
    listed.write_text("{(None, 0, 'inductor'): ('key', '/build/hash/missing')}\n")
    other = target.with_name("other")
    other.mkdir()
    with pytest.raises(CacheError, match="which the cache does not contain"):
        make_private_copy(cache, other, MovedTree("/seen"))


def test_insufficient_disk_space_is_detected_before_writing(cache, target, monkeypatch):
    room = os.statvfs(target)
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result((*room[:4], 1, *room[5:])))
    with pytest.raises(CacheError, match=r"needs \d+ bytes, but .* has \d+ bytes free.*read-only without a copy"):
        make_private_copy(cache, target)
    assert list(target.iterdir()) == []


def test_copy_is_aborted_at_time_limit(cache, target):
    with pytest.raises(CacheError, match="within the time limit"):
        make_private_copy(cache, target, seconds=-1)


def test_private_copy_command_reports_result_and_errors(cache, target):
    arguments = ["cache", "private-copy", "--from", str(cache), "--to", str(target)]
    done = CliRunner().invoke(main, [*arguments, "--mount-path", "/seen", "--tree", "hash=/root/.triton"])
    assert (done.exit_code, done.output) == (
        0,
        f"copied 4 files with {make_private_copy(cache, target).size_bytes} bytes to {target}\n",
    )
    assert json.loads((target / MARKER).read_text())["mount_path"] == "/seen"
    wrong = CliRunner().invoke(main, [*arguments, "--mount-path", "relative"])
    assert wrong.exit_code == 2
    (target / MARKER).unlink()
    full = CliRunner().invoke(main, arguments)
    assert full.exit_code == 1
    assert "set --to to an empty folder" in full.output
