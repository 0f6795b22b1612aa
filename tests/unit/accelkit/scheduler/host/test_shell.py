import os
import shutil
import subprocess

import pytest
from switched_host import tree

from accelkit.errors import ConfigurationError
from accelkit.scheduler.host.host import LocalHost, sweep
from accelkit.scheduler.host.shell import ShellHost

SHELLS = [
    pytest.param(shell, marks=pytest.mark.skipif(shutil.which(shell[0]) is None, reason=f"no {shell[0]} here"))
    for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"])
]
ODD = b"\0\xff'\"$(false)`\n\\n\r\n" + bytes(range(256)) * 300


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def execute(request):
    """Runs a script as a connection would."""

    def run(script, content):
        done = subprocess.run([*request.param, "-c", script], input=content, capture_output=True, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


@pytest.fixture
def host(execute):
    return ShellHost(execute)


def mine():
    return {"uid": os.getuid(), "gid": os.getgid()}


@pytest.mark.parametrize("name", ["plain", "with space", 'quote\'d "$(x)"', "-dash"])
@pytest.mark.parametrize("content", [ODD, b"", b"no newline"])
def test_written_file_can_be_read_and_inspected(tmp_path, host, name, content):
    path = f"{tmp_path}/{name}"
    assert host.read_status(path) is None
    assert host.read(path) is None
    host.write(path, content, mode="0640", **mine())
    assert host.read(path) == content
    assert host.read_status(path) == LocalHost().read_status(path)
    assert host.list_names(str(tmp_path)) == [name], "nothing is left beside it"
    host.remove(path)
    host.remove(path)
    assert host.list_names(str(tmp_path)) == []


def test_bytes_are_exact_without_base64_command(tmp_path, host, execute):
    def without(script, content):
        return execute(script.replace("command -v base64", "command -v no-such-command"), content)

    host.write(f"{tmp_path}/file", ODD, mode="0600", **mine())
    assert ShellHost(without).read(f"{tmp_path}/file") == ODD


@pytest.mark.parametrize("mode", ["0755", "0700", "1777", "2750", "4711"])
def test_folder_modes_are_reported_exactly(tmp_path, host, mode):
    host.make_folder(f"{tmp_path}/folder", mode=mode)
    host.make_folder(f"{tmp_path}/folder", mode=mode)
    assert host.read_status(f"{tmp_path}/folder") == LocalHost().read_status(f"{tmp_path}/folder")
    assert host.read_status(f"{tmp_path}/folder").mode == mode
    (tmp_path / "folder/file").write_text("")
    host.remove_empty_folder(f"{tmp_path}/folder")
    assert host.read_status(f"{tmp_path}/folder") is not None
    host.remove(f"{tmp_path}/folder/file")
    host.remove_empty_folder(f"{tmp_path}/folder")
    host.remove_empty_folder(f"{tmp_path}/folder")
    assert host.read_status(f"{tmp_path}/folder") is None
    assert host.list_names(f"{tmp_path}/folder") == []


def test_symlink_is_reported_as_link_and_fifo_as_other(tmp_path, host):
    (tmp_path / "link").symlink_to("nowhere")
    assert host.read_status(f"{tmp_path}/link").kind == "link"
    (tmp_path / "pipe").parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / "pipe")
    assert host.read_status(f"{tmp_path}/pipe").kind == "other"


def test_unsearchable_folder_is_an_error_and_not_absence(tmp_path, execute):
    (tmp_path / "folder").mkdir()

    def closed(script, content):
        # Root may enter every folder, so the shell is told otherwise.
        return execute(script.replace('[ -x "${above:-/}" ]', "false"), content)

    with pytest.raises(ConfigurationError, match="cannot search"):
        ShellHost(closed).read(f"{tmp_path}/folder/file")
    with pytest.raises(ConfigurationError, match="cannot search"):
        ShellHost(closed).read_status(f"{tmp_path}/folder/none/file")


def test_refused_operations_raise_errors_and_leave_no_files(tmp_path, host):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ConfigurationError, match="cannot write "):
        host.write(f"{tmp_path}/file/below", b"x", mode="0600", **mine())
    with pytest.raises(ConfigurationError, match="cannot create "):
        host.make_folder(f"{tmp_path}/none/folder", mode="0755")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigurationError, match=r"cannot write .*: it is a directory"):
        host.write(f"{tmp_path}/folder", b"x", mode="0600", **mine())
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_incompletely_received_content_changes_nothing(tmp_path, execute):
    (tmp_path / "file").write_text("old")
    before = tree(tmp_path)
    with pytest.raises(ConfigurationError, match="the received content is incomplete"):
        ShellHost(lambda script, content: execute(script, content[:-1])).write(
            f"{tmp_path}/file", b"new content", mode="0600", **mine()
        )
    assert tree(tmp_path) == before


def test_shell_killed_after_any_line_leaves_old_or_new_file(tmp_path, execute, host):
    path = tmp_path / "file"
    seen = set()
    for line in range(30):
        path.write_text("old")
        lasted = []

        def cut_off(script, content, line=line, lasted=lasted):
            lines = script.splitlines()
            lasted.append(line >= len(lines))
            return execute("\n".join([*lines[:line], "kill -9 $$", *lines[line:]]), content)

        try:
            ShellHost(cut_off).write(str(path), b"new", mode="0600", **mine())
        except ConfigurationError:
            seen.add(path.read_text())
        assert path.read_text() in {"old", "new"}
        host.write(str(path), b"newest", mode="0600", **mine())
        # The next run deletes what this one left.
        sweep(host, str(tmp_path))
        assert host.list_names(str(tmp_path)) == ["file"]
        if lasted[0]:
            break
    else:
        pytest.fail("never lasted")
    assert seen == {"old", "new"}


def test_commands_return_exit_code_and_output(host):
    assert host.run(["printf", "%s", "a b"]) == (0, "a b")
    assert host.run(["sh", "-c", "echo no >&2; exit 3"]) == (3, "no\n")
    assert host.run(["no-such-command"])[0] == 127


def test_probe_without_http_client_returns_none(execute):
    def bare(script, content):
        return execute(script.replace("command -v ", "command -v no-such-"), content)

    assert ShellHost(bare).probe_url("https://127.0.0.1:1/healthz") is None


@pytest.mark.skipif(shutil.which("curl") is None and shutil.which("wget") is None, reason="neither curl nor wget")
def test_probe_of_closed_port_returns_false(host):
    assert host.probe_url("https://127.0.0.1:1/healthz") is False
