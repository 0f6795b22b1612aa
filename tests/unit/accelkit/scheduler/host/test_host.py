import errno
import os
from pathlib import Path

import pytest

from accelkit.errors import ConfigurationError
from accelkit.scheduler.host.host import LocalHost, list_missing_folders, make_folders, sweep


@pytest.fixture
def host(tmp_path):
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "secret").write_text("outside")
    return LocalHost(tmp_path / "root")


def test_symlinks_out_of_root_are_refused(tmp_path, host):
    (tmp_path / "root/out").symlink_to("/etc")
    (tmp_path / "root/etc/link").symlink_to(tmp_path / "secret")
    for call in (
        lambda: host.read("/out/hostname"),
        lambda: host.read("/etc/link"),
        lambda: host.write("/out/file", b"", mode="0600", uid=os.getuid(), gid=os.getgid()),
        lambda: host.remove("/out/file"),
    ):
        with pytest.raises(ConfigurationError, match="a symbolic link points outside"):
            call()
    assert host.read_status("/etc/link").kind == "link"


def test_symlinks_within_root_are_followed(tmp_path, host):
    (tmp_path / "root/etc/file").write_text("inside")
    (tmp_path / "root/etc/link").symlink_to("file")
    (tmp_path / "root/alias").symlink_to("etc")
    assert host.read("/etc/link") == b"inside"
    assert host.read("/alias/file") == b"inside"


def test_missing_folders_are_created(host):
    assert list_missing_folders(host, "/etc/a/b") == ["/etc/a", "/etc/a/b"]
    make_folders(host, "/etc/a/b", mode="0700")
    assert list_missing_folders(host, "/etc/a/b") == []
    assert host.read_status("/etc/a").mode == "0700"


def test_sweep_removes_only_own_temporary_files(tmp_path, host):
    for name in (".accelkit-file", ".other", "file"):
        (tmp_path / "root/etc" / name).write_text("")
    sweep(host, "/etc")
    assert host.list_names("/etc") == [".other", "file"]


def test_failed_write_keeps_old_file_and_leaves_no_temporary_file(host, monkeypatch):
    mine = {"uid": os.getuid(), "gid": os.getgid()}
    host.write("/etc/file", b"old", mode="0600", **mine)

    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(ConfigurationError, match="cannot write /etc/file: Read-only file system"):
        host.write("/etc/file", b"new", mode="0600", **mine)
    assert host.read("/etc/file") == b"old"
    assert host.list_names("/etc") == ["file"]


def test_missing_command_returns_exit_code_127(host):
    assert host.run(["no-such-command"])[0] == 127
    assert host.run(["sh", "-c", "echo no; exit 3"]) == (3, "no\n")


def test_busy_mounted_folder_is_not_removed(tmp_path, host, monkeypatch):
    (tmp_path / "root/etc/mounted").mkdir()

    def refuse(_path):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(Path, "rmdir", refuse)
    host.remove_empty_folder("/etc/mounted")
    assert host.list_names("/etc") == ["mounted"]
