import os

import pytest

from accelkit.model.card import Card
from accelkit.node.discovery import FoundCard
from accelkit.node.enforcement.mps import (
    MpsFolders,
    build_mps_environment,
    find_enforcement,
    is_replaced,
    list_mps_mounts,
    read_mps_daemons,
)
from accelkit.vendors.profiles import load_profiles

FIRST, SECOND = "GPU-abcd1234-1", "GPU-eeee1234-1"
MIB, GIB = 2**20, 2**30
FOLDERS = MpsFolders()


def card(vendor="nvidia", uuid=FIRST):
    return FoundCard(Card(uuid or "x", vendor, "m", 16 * GIB), 0, 0, load_profiles()[vendor], uuid=uuid)


@pytest.fixture
def daemon(tmp_path):
    """An MPS control daemon with process ID 42, in the folder that its clients use."""

    def start(folder="tmp/nvidia-mps", *, command="nvidia-cuda-mps", environ="PATH=/bin\0"):
        pipes, process = tmp_path / folder, tmp_path / "proc/42"
        (pipes / "shm").mkdir(parents=True)
        process.mkdir(parents=True)
        (pipes / "control").touch()
        (pipes / "nvidia-cuda-mps-control.pid").write_text("42\n")
        (process / "comm").write_text(f"{command}\n")
        (process / "environ").write_text(environ)
        return pipes

    return start


@pytest.fixture
def find(tmp_path):
    def find(found, folders=FOLDERS):
        return find_enforcement(
            tmp_path, found, folders=folders, list_daemons=lambda: read_mps_daemons(tmp_path, [7, 42])
        )

    return find


def test_running_mps_daemon_enforces_shares_of_nvidia_cards(daemon, find):
    assert find(card()) is None
    daemon()
    assert find(card()) == "mps"
    assert find(card("amd")) is None
    # The daemon identifies cards by their UUIDs.
    assert find(card(uuid=None)) is None


def test_mps_daemon_is_found_in_configured_folders(daemon, find):
    daemon("run/mps")
    assert find(card()) is None
    assert find(card(), MpsFolders("/run/mps", "/run/mps/shm")) == "mps"


def put(make):
    """Replace the file of the daemon's process ID."""

    def replace(pipes):
        number = pipes / "nvidia-cuda-mps-control.pid"
        number.rename(pipes / "number")
        make(number)

    return replace


SPOILT = {
    "memory shared with the whole host": lambda pipes: (pipes / "shm").rmdir(),
    "no control pipe yet": lambda pipes: (pipes / "control").unlink(),
    "no number yet": lambda pipes: (pipes / "nvidia-cuda-mps-control.pid").unlink(),
    # A file that a client can put there must not block the agent.
    "a pipe": put(os.mkfifo),
    "a link to an endless device": put(lambda path: path.symlink_to("/dev/zero")),
    "a link to the number itself": put(lambda path: path.symlink_to(path.with_name("number"))),
    "too much": put(lambda path: path.write_text("42" + " " * 4096)),
    "a folder": put(lambda path: path.mkdir()),
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_mps_daemon_with_unexpected_folder_is_ignored(daemon, find, spoil):
    spoil(daemon())
    assert find(card()) is None


@pytest.mark.parametrize("process", [{"command": "bash"}, {"environ": "A=" + "x" * 2**20}], ids=["dead", "endless"])
def test_process_that_is_not_mps_daemon_is_ignored(daemon, find, process):
    daemon(**process)
    assert find(card()) is None


@pytest.mark.parametrize(
    ("visible", "found"),
    [("GPU-abcd1234-1", "mps"), ("GPU-ffff,GPU-abcd", "mps"), ("GPU-ffff", None), ("0,1", None), ("", None)],
)
def test_mps_daemon_enforces_only_cards_in_its_visible_devices(daemon, find, visible, found):
    daemon(environ=f"PATH=/bin\0CUDA_VISIBLE_DEVICES={visible}\0")
    assert find(card()) == found


def test_mps_daemon_with_unreadable_environment_is_ignored(daemon, find, tmp_path):
    daemon()
    (tmp_path / "proc/42/environ").unlink()
    assert find(card()) is None


def test_symbolic_link_as_mps_shared_memory_is_not_used(daemon, find, tmp_path):
    pipes = daemon()
    (pipes / "shm").rename(pipes / "was")
    (tmp_path / "etc").mkdir()
    (pipes / "shm").symlink_to("/etc")
    assert is_replaced(tmp_path, FOLDERS)
    (pipes / "shm").unlink()
    (pipes / "shm").symlink_to("was")
    assert find(card()) is None


def test_mps_folders_behind_host_link_are_used(daemon, find, tmp_path):
    daemon("run/mps")
    (tmp_path / "var").mkdir()
    (tmp_path / "var/run").symlink_to("../run")
    assert find(card(), MpsFolders("/var/run/mps", "/var/run/mps/shm")) == "mps"


def test_mps_environment_has_limits_by_uuid():
    assert build_mps_environment({SECOND: GIB, FIRST: 8 * GIB}, FOLDERS) == {
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"{FIRST}=8192M,{SECOND}=1024M",
        "CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps",
    }


@pytest.mark.parametrize(("amount", "limit"), [(2 * MIB - 1, "1M"), (100_000_000, "95M"), (1, "1M")])
def test_mps_limit_is_rounded_down_but_not_to_zero(amount, limit):
    environment = build_mps_environment({FIRST: amount}, FOLDERS)
    assert environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"{FIRST}={limit}"


def test_mps_client_uses_configured_pipe_and_shared_memory():
    folders = MpsFolders("/run/mps", "/run/mps-memory")
    assert build_mps_environment({FIRST: GIB}, folders)["CUDA_MPS_PIPE_DIRECTORY"] == "/run/mps"
    assert list_mps_mounts(folders) == {"/run/mps": "/run/mps", "/dev/shm": "/run/mps-memory"}
