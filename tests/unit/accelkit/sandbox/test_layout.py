"""Where the sandbox lies, and the files by which its processes know of each other."""

import os
import stat
from pathlib import Path

import msgspec
import pytest

from accelkit.errors import SandboxError
from accelkit.sandbox import layout
from accelkit.sandbox.layout import (
    Facts,
    SandboxOptions,
    SandboxPaths,
    find_default_root,
    prepare,
    write_atomically,
)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"ACCELKIT_SANDBOX": "/s", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "/s"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/accelkit/sandbox"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/accelkit/sandbox"),
        ({"HOME": "/h"}, "/h/.local/state/accelkit/sandbox"),
    ],
)
def test_default_root_prefers_own_variable_then_xdg_then_home(environ, expected):
    assert find_default_root(environ) == Path(expected)


def test_relative_root_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_default_root({"ACCELKIT_SANDBOX": "s"}) == tmp_path / "s"


def test_sandbox_folders_have_mode_0700(tmp_path):
    paths = SandboxPaths(tmp_path / "a" / "s")
    prepare(paths)
    assert {mode(folder) for folder in (paths.root, *paths.folders)} == {0o700}


def test_prepare_restricts_mode_of_existing_root_and_is_idempotent(tmp_path):
    paths = SandboxPaths(tmp_path / "s")
    paths.root.mkdir()
    paths.root.chmod(0o755)
    prepare(paths)
    prepare(paths)
    assert mode(paths.root) == 0o700


def test_root_of_another_user_is_refused_unchanged(tmp_path, monkeypatch):
    other = os.geteuid() + 1
    monkeypatch.setattr(layout.os, "geteuid", lambda: other)
    with pytest.raises(SandboxError, match="belongs to another user"):
        prepare(SandboxPaths(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_root_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "s").touch()
    with pytest.raises(SandboxError, match="cannot use"):
        prepare(SandboxPaths(tmp_path / "s"))


def test_write_atomically_replaces_file_and_leaves_no_temporary_file(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"a much longer text before")
    write_atomically(path, b"after")
    assert (path.read_bytes(), mode(path)) == (b"after", 0o600)
    assert list(tmp_path.iterdir()) == [path]


def test_facts_are_unchanged_by_writing_and_reading(tmp_path):
    paths = SandboxPaths(tmp_path)
    facts = Facts(image="i", extender_port=1, supervisor_pid=2, nodes=["n"], processes={"etcd": 3})
    write_atomically(paths.facts, msgspec.json.encode(facts))
    assert paths.read_facts() == facts


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"image": 1}'])
def test_unreadable_facts_are_none(tmp_path, content):
    paths = SandboxPaths(tmp_path)
    if content is not None:
        paths.facts.write_bytes(content)
    assert paths.read_facts() is None


def test_options_are_restored_and_missing_options_name_next_step(tmp_path):
    paths = SandboxPaths(tmp_path)
    with pytest.raises(SandboxError, match="run `accelkit sandbox up`"):
        paths.read_options()
    options = SandboxOptions(extender_port=1, apiserver_args=("--v=1",))
    write_atomically(paths.options, msgspec.json.encode(options))
    assert paths.read_options() == options
