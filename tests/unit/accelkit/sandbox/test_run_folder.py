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


def test_a_socket_of_the_longest_node_below_a_long_root_can_be_bound_and_lies_in_the_sandbox(paths, base):
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


def test_it_is_for_its_owner_alone_and_two_sandboxes_have_two(paths, base):
    with open_run_folder(paths, ["a"]) as first, open_run_folder(paths, ["a"]) as second:
        assert {first.parent, second.parent} == {base}
        assert first != second
        assert {stat.S_IMODE(each.stat().st_mode) for each in (first, second)} == {0o700}


def test_it_is_locked_against_those_who_delete_what_is_old(paths, base):
    with open_run_folder(paths, ["a"]) as folder:
        assert subprocess.run(["flock", "--exclusive", "--nonblock", folder, "true"], check=False).returncode == 1
    folder.mkdir()
    assert subprocess.run(["flock", "--exclusive", "--nonblock", folder, "true"], check=False).returncode == 0


@pytest.mark.parametrize("spoil", ["open", "foreign", "long", "absent"])
def test_a_base_that_others_can_write_or_that_is_too_long_is_passed_over_for_the_next(
    paths, base, monkeypatch, spoil, tmp_path
):
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


def test_a_name_that_another_user_made_before_is_not_taken(paths, base, monkeypatch):
    names = iter(["taken", "free"])
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: names)
    (base / "accelkit-taken").mkdir()
    with open_run_folder(paths, ["a"]) as folder:
        assert folder.name == "accelkit-free"


def test_without_any_base_it_says_what_to_set(paths, monkeypatch):
    monkeypatch.setattr(run_folder, "_is_safe", lambda _: False)
    with (
        pytest.raises(SandboxError, match=r"other users can replace files.*set TMPDIR to a folder with a short path"),
        open_run_folder(paths, ["a"]),
    ):
        pass


def test_what_a_killed_supervisor_left_is_removed_and_what_it_leads_to_stays(paths, base):
    left = Path(tempfile.mkdtemp(prefix="accelkit-"))
    (paths.nodes / "a").mkdir()
    (left / "0").symlink_to(paths.nodes / "a")
    remove_run_folder(left)
    assert not left.exists()
    assert (paths.nodes / "a").is_dir()
    remove_run_folder(left)


def test_only_our_own_links_are_ever_deleted(base, monkeypatch):
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
