"""Copies of a host's `/etc` and cgroups for an agent: the files that discovery reads, and no others."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys

import pytest
from support.waiting import poll_until

from accelkit.errors import ConfigurationError
from accelkit.logs import ErrorReporter
from accelkit.node import host_files
from accelkit.node.discovery import discover
from accelkit.node.discovery.host import read_host
from accelkit.node.host_files import copy_host_files, list_host_files, wait_for_host_files
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.vendors.profiles import load_profiles

log = logging.getLogger(__name__)


@pytest.fixture
def host(tmp_path):
    """A host with secrets."""
    host = FakeHost(tmp_path / "host").add("enflame", 1, "S60")
    host.write("etc/shadow", "secret")
    host.write("etc/kubernetes/pki/ca.key", "secret")
    return host


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder


@pytest.fixture
def copy(host, target):
    errors = ErrorReporter(log)
    return lambda: copy_host_files(host.root, target, errors)


def list_copies(target):
    return {str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()} - {"etc/.copied"}


def test_all_files_that_discovery_reads_are_listed():
    assert list_host_files() == (
        "etc/accelkit/cards.yaml",
        "etc/accelkit/simulated-cards.json",
        "etc/machine-id",
        "etc/os-release",
        "etc/topscloud/topscloud.json",
        "sys/fs/cgroup/dmem.capacity",
    )


def test_discovery_from_copies_matches_host_and_secrets_are_not_copied(host, target, copy):
    host.write("etc/accelkit/cards.yaml", 'cards: {"1e36:c035": {memory: 20GiB}}')
    host.write("etc/topscloud/topscloud.json", json.dumps({"mainDevice": ["/dev/acme"]}))
    copy()
    assert list_copies(target) == {"etc/accelkit/cards.yaml", "etc/machine-id", "etc/topscloud/topscloud.json"}
    own = discover(host.root, load_profiles().values())
    assert own[0].card.memory_bytes == 20 * 2**30
    pod = target.parent / "pod"
    pod.mkdir()
    (pod / "sys").symlink_to(host.root / "sys")
    (pod / "etc").symlink_to(target / "etc")
    (found,) = discover(pod, load_profiles().values())
    assert found.card == own[0].card
    assert found.profile.card_nodes == ("/dev/acme{minor}",)


def test_a_change_or_removal_of_a_file_is_copied(host, target, copy):
    host.write("etc/accelkit/cards.yaml", "one")
    copy()
    before = (target / "etc/machine-id").stat()
    host.write("etc/accelkit/cards.yaml", "two")
    copy()
    assert (target / "etc/accelkit/cards.yaml").read_text() == "two\n"
    (host.root / "etc/accelkit/cards.yaml").unlink()
    copy()
    assert list_copies(target) == {"etc/machine-id"}
    # An unchanged file is not written again.
    assert (target / "etc/machine-id").stat().st_ino == before.st_ino


@pytest.mark.parametrize("link", ["../shadow", "/etc/shadow", "../../etc/accelkit/../shadow"])
def test_link_within_etc_is_resolved_in_host_root(host, target, copy, link):
    host.write("etc/accelkit/x", "")
    (host.root / "etc/accelkit/cards.yaml").symlink_to(link)
    copy()
    assert (target / "etc/accelkit/cards.yaml").read_text() == "secret\n"


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda path: path.symlink_to("/root/.ssh/id"), "is a symbolic link to a file outside /etc"),
        (lambda path: path.symlink_to("../../../../root/id"), "is a symbolic link to a file outside /etc"),
        (lambda path: path.symlink_to("cards.yaml"), "is a symbolic link to a file outside /etc"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (lambda path: path.write_bytes(b"x" * (2**20 + 1)), "is larger than 1048576 bytes"),
    ],
    ids=["absolute link", "relative link", "circle", "pipe", "folder", "large"],
)
def test_forbidden_file_is_logged_once_and_remaining_files_are_copied(host, copy, caplog, make, problem):
    target = host.root.parent / "copies"
    host.write("root/id", "secret")
    host.write("etc/accelkit/cards.yaml", "before")
    copy()
    path = host.root / "etc/accelkit/cards.yaml"
    path.unlink()
    make(path)
    copy()
    copy()
    assert list_copies(target) == {"etc/machine-id"}
    assert [problem in record.getMessage() for record in caplog.records] == [True]


def test_os_release_link_outside_etc_is_skipped_without_warning(host, target, copy, caplog):
    host.write("usr/lib/os-release", "ID=debian")
    (host.root / "etc/os-release").symlink_to("../usr/lib/os-release")
    copy()
    assert list_copies(target) == {"etc/machine-id"}
    assert caplog.records == []


def test_copy_is_kept_if_file_cannot_be_read(host, target, copy, caplog, monkeypatch):
    copy()

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(host_files.Path, "open", fail)
    copy()
    assert list_copies(target) == {"etc/machine-id"}
    assert "cannot read /etc/machine-id: Input/output error" in caplog.text


def test_unwritable_target_folder_is_an_error(host, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot write"):
        copy_host_files(host.root, tmp_path / "file", ErrorReporter(log))


def test_a_file_that_only_root_can_read_is_logged_with_a_next_step(host, target, copy, caplog, monkeypatch):
    host.write("etc/accelkit/cards.yaml", "one")
    copy()
    host.write("etc/accelkit/cards.yaml", "two")
    opened = host_files.Path.open

    def refuse(path, mode="r", **options):
        if path == host.root / "etc/accelkit/cards.yaml":
            raise PermissionError(13, "Permission denied")
        return opened(path, mode, **options)

    monkeypatch.setattr(host_files.Path, "open", refuse)
    copy()
    copy()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "`chmod a+r /etc/accelkit/cards.yaml` on the node" in message
    monkeypatch.undo()
    assert (target / "etc/accelkit/cards.yaml").read_text() == "one\n"


def test_dmem_capacity_is_copied_from_cgroups(host, target, tmp_path):
    host.write("sys/fs/cgroup/dmem.capacity", "drm/0000:03:00.0/vram0 1024")
    (tmp_path / "pod/sys/fs").mkdir(parents=True)
    (tmp_path / "pod/etc").symlink_to(host.root / "etc")
    (tmp_path / "pod/sys/fs/cgroup").symlink_to(host.root / "sys/fs/cgroup")
    copy_host_files(tmp_path / "pod", target, ErrorReporter(log))
    assert list_copies(target) == {"etc/machine-id", "sys/fs/cgroup/dmem.capacity"}
    assert read_host(target, None).dmem == {"0000:03:00.0": 1024}


async def test_the_agent_waits_for_the_first_copies(host, tmp_path):
    (tmp_path / "pod").mkdir()
    target = tmp_path / "pod"
    waiting = asyncio.create_task(wait_for_host_files(tmp_path / "pod", seconds=30))
    await asyncio.sleep(0.15)
    assert not waiting.done()
    copy_host_files(host.root, target, ErrorReporter(log))
    await asyncio.wait_for(waiting, 60)


async def test_agent_starts_without_files_after_timeout(tmp_path, caplog):
    await wait_for_host_files(tmp_path, seconds=0.01)
    assert "starting without files from the host's /etc" in caplog.text


def test_command_copies_files_until_sigterm(host, target):
    command = [sys.executable, "-m", "accelkit", "host-files", "--host-root", str(host.root), "--to", str(target)]
    with subprocess.Popen(command) as process:
        poll_until((target / "etc/.copied").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert list_copies(target) == {"etc/machine-id"}
