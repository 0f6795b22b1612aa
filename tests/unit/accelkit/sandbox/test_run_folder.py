"""The short way to the nodes of a sandbox, and who else could meddle with it."""

import os
import socket
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from accelkit.errors import SandboxError
from accelkit.sandbox import run_folder
from accelkit.sandbox.layout import SandboxPaths, prepare
from accelkit.sandbox.run_folder import SOCKET_PATH_BYTES, build_node_root, open_run_folder, remove_run_folder

SOCKET = "var/lib/kubelet/device-plugins/accelkit-memory.sock"
LONGEST_NODE = "n" * 63


@pytest.fixture
def paths(tmp_path):
    found = SandboxPaths(tmp_path / ("r" * 90))
    prepare(found)
    return found


@pytest.fixture
def base(monkeypatch):
    """A folder for temporary files of our own, which nobody else can write."""
    with tempfile.TemporaryDirectory(prefix="ak-", dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_socket_of_node_with_longest_name_can_be_bound_under_long_root(paths, base):
    with open_run_folder(paths, ["node-1", LONGEST_NODE]) as folder:
        short = build_node_root(folder, 1) / SOCKET
        short.parent.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(short))
        whole = paths.nodes / LONGEST_NODE / SOCKET
        assert stat.S_ISSOCK(whole.stat().st_mode)
        assert len(str(whole)) > SOCKET_PATH_BYTES
        assert build_node_root(folder, 0).resolve() == (paths.nodes / "node-1").resolve()
    assert whole.exists()
    assert list(base.iterdir()) == []


def test_run_folder_has_mode_0700_and_is_unique_per_sandbox(paths, base):
    with open_run_folder(paths, ["a"]) as first, open_run_folder(paths, ["a"]) as second:
        assert {first.parent, second.parent} == {base}
        assert first != second
        assert {stat.S_IMODE(each.stat().st_mode) for each in (first, second)} == {0o700}


def test_run_folder_is_locked_while_in_use(paths, base):
    with open_run_folder(paths, ["a"]) as folder:
        assert subprocess.run(["flock", "--exclusive", "--nonblock", folder, "true"], check=False).returncode == 1
    folder.mkdir()
    assert subprocess.run(["flock", "--exclusive", "--nonblock", folder, "true"], check=False).returncode == 0


@pytest.mark.parametrize("spoil", ["open", "foreign", "long", "absent"])
def test_unsafe_or_too_long_base_folder_is_skipped(paths, base, monkeypatch, spoil, tmp_path):
    if spoil == "open":
        base.chmod(0o777)
    elif spoil == "absent":
        monkeypatch.setattr(tempfile, "tempdir", str(base / "none"))
    elif spoil == "long":
        monkeypatch.setattr(tempfile, "tempdir", str(paths.root))
    else:
        # As /tmp of another user's: everything in it can be renamed by that one.
        other = os.geteuid() + 1
        base.chmod(0o1777)
        real = Path.stat
        monkeypatch.setattr(
            Path, "stat", lambda path, **options: _owned(real(path, **options), other if path == base else None)
        )
    with open_run_folder(paths, ["a"]) as folder:
        assert folder.parent == Path("/tmp")


def _owned(found, owner):
    return found if owner is None else os.stat_result((*found[:4], owner, *found[5:]))


def test_existing_folder_name_is_not_reused(paths, base, monkeypatch):
    names = iter(["taken", "free"])
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: names)
    (base / "accelkit-taken").mkdir()
    with open_run_folder(paths, ["a"]) as folder:
        assert folder.name == "accelkit-free"


def test_error_names_tmpdir_when_no_base_folder_is_safe(paths, monkeypatch):
    monkeypatch.setattr(run_folder, "_is_safe", lambda _: False)
    with (
        pytest.raises(SandboxError, match=r"other users can replace files.*set TMPDIR to a folder with a short path"),
        open_run_folder(paths, ["a"]),
    ):
        pass


def test_leftover_run_folder_is_removed_without_following_symlinks(paths, base):
    left = Path(tempfile.mkdtemp(prefix="accelkit-"))
    (paths.nodes / "a").mkdir()
    (left / "0").symlink_to(paths.nodes / "a")
    remove_run_folder(left)
    assert not left.exists()
    assert (paths.nodes / "a").is_dir()
    remove_run_folder(left)


def test_remove_run_folder_deletes_only_own_symlinks(base, monkeypatch):
    folder = base / "accelkit-taken"
    folder.mkdir()
    (folder / "thesis").touch()
    (folder / "link").symlink_to("thesis")
    monkeypatch.chdir(folder)
    remove_run_folder(Path())
    way = base / "accelkit-way"
    way.symlink_to(folder)
    remove_run_folder(way)
    with monkeypatch.context() as other:
        another = os.geteuid() + 1
        other.setattr(run_folder.os, "geteuid", lambda: another)
        remove_run_folder(folder)
    assert sorted(each.name for each in folder.iterdir()) == ["link", "thesis"]
    remove_run_folder(folder)
    assert [each.name for each in folder.iterdir()] == ["thesis"]
