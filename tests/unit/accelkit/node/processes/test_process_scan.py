import os
import signal
import subprocess
import sys

import msgspec
import pytest
from click.testing import CliRunner
from support.host_processes import write_process
from support.waiting import poll_until

from accelkit.cli import main
from accelkit.errors import DevicePluginError
from accelkit.node.processes.passed_on import Cards, PassedScan, pass_on

CARDS = Cards({"a": ["/dev/accel0"]}, {})


@pytest.fixture
def host(tmp_path):
    """A host with a process that has a card open, and a control daemon of MPS."""
    (write_process(tmp_path, 7, "train", files={4: "/dev/accel0"}) / "environ").touch()
    (write_process(tmp_path, 8, "nvidia-cuda-mps") / "environ").write_text("CUDA_VISIBLE_DEVICES=GPU-1\0")
    (tmp_path / "shared").mkdir()
    return tmp_path


def test_scan_is_passed_from_scanner_to_agent(host):
    agent = PassedScan(host / "shared")
    assert pass_on(host, host / "shared") is False
    agent.request(CARDS)
    assert agent.read() is None
    assert agent.list_mps_daemons() == {}
    assert pass_on(host, host / "shared") is True
    assert [(each.card, each.pid, each.command) for each in agent.read().processes.found] == [("a", 7, "train")]
    assert agent.list_mps_daemons() == {8: "GPU-1"}


def test_agent_without_shared_folder_has_no_scan():
    agent = PassedScan(None)
    agent.request(CARDS)
    assert (agent.read(), agent.list_mps_daemons()) == (None, {})


def test_failed_scan_is_not_passed_on(host):
    PassedScan(host / "shared").request(CARDS)
    with pytest.raises(DevicePluginError, match="cannot list "):
        pass_on(host / "elsewhere", host / "shared")
    (host / "shared/cards.json").write_text("{")
    with pytest.raises(DevicePluginError, match="cannot read the agent's cards"):
        pass_on(host, host / "shared")


def test_command_scans_until_sigterm(host):
    (host / "shared/cards.json").write_bytes(msgspec.json.encode(CARDS))
    command = [sys.executable, "-m", "accelkit", "process-scan", "--folder", host / "shared", "--host-root", host]
    with subprocess.Popen(command, env=dict(os.environ)) as process:
        poll_until((host / "shared/processes.json").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_command_refuses_missing_shared_folder(host):
    done = CliRunner().invoke(main, ["process-scan", "--folder", str(host / "missing")])
    assert done.exit_code == 1
    assert "is not a folder" in done.output
