"""`accelkit sandbox up`, `status` and `down`, with a program in the supervisor's place."""

import json
import os
import socket
import subprocess

import pytest
from click.testing import CliRunner
from ports import free_port
from sandbox_programs import write_programs
from support.programs import write_accelkit
from support.waiting import poll_until

from accelkit.cli import main
from accelkit.errors import SandboxError
from accelkit.sandbox import lifecycle, processes
from accelkit.sandbox.layout import ROOT_VARIABLE, SandboxOptions, SandboxPaths, prepare
from accelkit.sandbox.processes import find_sandbox_processes, identify

DEADLINE = 30

# Says what a supervisor says, with one process more, and does what the environment tells it.
SUPERVISOR = """
import json, os, subprocess, sys, time

root = sys.argv[sys.argv.index("--root") + 1]
line = "2026-01-01 INFO accelkit.sandbox.supervisor supervisor.py:7 "
print(line + "starting etcd", flush=True)
print("INFO another.module another.py:1 not for people", flush=True)
other = subprocess.Popen(["sleep", "1000"])
facts = {
    "image": "i", "extender_port": 1, "supervisor_pid": os.getpid(), "nodes": ["a", "b"],
    "kubeconfig": root + "/admin.kubeconfig", "processes": {"etcd": other.pid, "old": 2**22 - 1},
}

def tell(**more):
    with open(root + "/new", "w") as file:
        json.dump({**facts, **more}, file)
    os.replace(root + "/new", root + "/sandbox.json")

mode = os.environ.get("MODE")
if mode == "fails":
    tell(state="failed", message="etcd ended")
    sys.exit(1)
if mode == "dies":
    print("no memory", flush=True)
    sys.exit(1)
tell(state="starting" if mode == "hangs" else "ready")
print(line + "not yet a whole line", end="", flush=True)
time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(lifecycle, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(processes, "_POLL_SECONDS", 0.01)


class Machine:
    """A root without a sandbox, and all that is needed to start one."""

    def __init__(self, folder):
        self.paths = SandboxPaths(folder / "s")
        write_programs(folder / "bin")
        self.environ = write_accelkit(folder / "program", SUPERVISOR) | {"KUBEBUILDER_ASSETS": str(folder / "bin")}
        self.said = []

    def up(self, *, mode="", nodes=None, **options):
        settings = SandboxOptions(extender_port=options.pop("extender_port", None) or free_port(), **options)
        environ = {**self.environ, "MODE": mode}
        return lifecycle.start_sandbox(self.paths, settings, nodes, self.said.append, environ)

    def down(self):
        lifecycle.stop_sandbox(self.paths, self.said.append)

    def run(self, *arguments, **environ):
        runner = CliRunner(env={**self.environ, "ACCELKIT_SANDBOX": str(self.paths.root), **environ})
        return runner.invoke(main, ["sandbox", *map(str, arguments)])


@pytest.fixture
def machine(tmp_path_factory, monkeypatch):
    supervisors = []
    monkeypatch.setattr(lifecycle, "_supervisors", supervisors)
    machine = Machine(tmp_path_factory.mktemp("m"))
    yield machine
    if machine.paths.root.exists():
        machine.down()
    for each in supervisors:
        each.wait(DEADLINE)
    assert find_sandbox_processes(machine.paths.root) == []


def test_up_waits_until_sandbox_is_ready_and_second_call_changes_nothing(machine):
    facts = machine.up()
    assert facts.state == "ready"
    assert machine.said == ["starting etcd", "the sandbox is ready"]
    # It outlives the command: it has a session of its own.
    assert os.getsid(facts.supervisor_pid) == facts.supervisor_pid
    assert machine.up() == facts
    assert machine.said[-1] == f"the sandbox in {machine.paths.root} is already running"


def test_down_stops_all_processes_and_deletes_sandbox(machine):
    facts = machine.up()
    assert len(find_sandbox_processes(machine.paths.root)) == 2
    machine.down()
    assert identify(facts.supervisor_pid) is None
    assert find_sandbox_processes(machine.paths.root) == []
    assert not machine.paths.root.exists()
    assert machine.said[-2:] == [
        "stopping the supervisor and its processes",
        f"deleted the sandbox in {machine.paths.root}",
    ]
    machine.down()
    assert machine.said[-1] == f"no sandbox exists in {machine.paths.root}"


def test_status_reports_state_and_memory_of_each_process(machine):
    facts = machine.up()
    found = lifecycle.read_status(machine.paths)
    seen = {process.name: process for process in found.processes}
    assert (found.running, found.facts) == (True, facts)
    assert {name: process.running for name, process in seen.items()} == {
        "supervisor": True,
        "etcd": True,
        "old": False,
    }
    assert seen["supervisor"].pid == facts.supervisor_pid
    assert 1 <= seen["supervisor"].memory_mib < 1024
    assert seen["old"].memory_mib == 0


def test_commands_print_kubeconfig_and_stop_command(machine):
    done = machine.run("up", "--extender-port", free_port())
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[-3:] == [
        "nodes: a, b",
        f"use it:  export KUBECONFIG={machine.paths.root}/admin.kubeconfig",
        "stop it: accelkit sandbox down",
    ]
    shown = machine.run("status", COLUMNS="200").stdout
    assert "sandbox: ready" in shown
    assert ["process", "pid", "state", "MiB"] in [line.split() for line in shown.splitlines()]
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.split()}
    assert rows["supervisor"][2] == "running"
    assert rows["old"][2:] == ["ended", "0"]
    assert f"KUBECONFIG={machine.paths.root}/admin.kubeconfig" in shown
    assert json.loads(machine.run("status", "-o", "json").stdout)["running"] is True
    assert machine.run("down").exit_code == 0
    assert not machine.paths.root.exists()


def test_root_that_is_a_file_is_a_usage_error(machine, tmp_path):
    (tmp_path / "file").touch()
    done = machine.run("down", "--root", tmp_path / "file")
    assert (done.exit_code, "is a file" in done.stderr) == (2, True)


def test_commands_print_root_option_if_root_was_set(machine):
    root = machine.paths.root
    done = machine.run("up", "--root", root, "--extender-port", free_port(), ACCELKIT_SANDBOX="/nowhere")
    assert f"accelkit sandbox down --root {root}" in done.stdout
    assert machine.run("down", "--root", root, ACCELKIT_SANDBOX="/nowhere").exit_code == 0


def test_sandbox_is_restarted_after_supervisor_was_killed(machine):
    first = machine.up()
    os.kill(first.supervisor_pid, 9)
    poll_until(lambda: identify(first.supervisor_pid) is None)
    assert lifecycle.read_status(machine.paths).running is False
    second = machine.up()
    assert second.supervisor_pid != first.supervisor_pid
    # What the first left behind has ended.
    assert identify(first.processes["etcd"]) is None


@pytest.mark.parametrize(
    ("mode", "says"), [("fails", "did not start: etcd ended"), ("dies", "its supervisor exited:\n.*\nno memory")]
)
def test_failed_start_reports_cause_preserves_logs_and_stops_processes(machine, mode, says):
    with pytest.raises(SandboxError, match=f"(?s){says}") as failure:
        machine.up(mode=mode)
    assert "accelkit sandbox down" in failure.value.next_step
    assert find_sandbox_processes(machine.paths.root) == []
    assert "starting etcd" in (machine.paths.root / "supervisor.log").read_text()


def test_hanging_start_ends_at_timeout(machine):
    with pytest.raises(SandboxError, match="was not ready in 1 s") as failure:
        machine.up(mode="hangs", timeout=1.0)
    assert "--timeout" in failure.value.next_step
    assert find_sandbox_processes(machine.paths.root) == []


def test_nodes_file_and_options_are_stored_for_processes(machine, tmp_path):
    nodes = tmp_path / "mine.yaml"
    nodes.write_text("nodes: [{name: mine}]")
    machine.up(nodes=nodes, plugin_grace=3.0)
    assert machine.paths.nodes_file.read_bytes() == nodes.read_bytes()
    assert machine.paths.read_options().plugin_grace == 3.0


def test_invalid_nodes_file_leaves_existing_sandbox_unchanged(machine, tmp_path):
    prepare(machine.paths)
    bad = tmp_path / "bad.yaml"
    bad.write_text("nodes: 3")
    with pytest.raises(SandboxError, match="nodes file"):
        machine.up(nodes=bad)
    assert machine.paths.pki.is_dir()


def test_occupied_port_is_reported_with_option_to_change_it(machine):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SandboxError, match=f"cannot use port {port} for the extender") as failure:
            machine.up(extender_port=port)
    assert "--extender-port" in failure.value.next_step
    assert not machine.paths.root.exists()


def test_unstoppable_processes_are_reported_and_nothing_is_deleted(machine, monkeypatch):
    machine.up()
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "end_all", lambda _processes, patience_seconds: None)  # noqa: ARG005 - the name is given
        with pytest.raises(SandboxError, match=r"cannot stop processes of the sandbox in .*: \d+, \d+") as failure:
            lifecycle.stop_sandbox(machine.paths, print)
    assert "as the owner of the processes" in failure.value.next_step
    assert machine.paths.facts.exists()


def test_status_without_sandbox_names_next_step(machine):
    with pytest.raises(SandboxError, match="no sandbox exists") as failure:
        lifecycle.read_status(machine.paths)
    assert "accelkit sandbox up" in failure.value.next_step
    prepare(machine.paths)
    machine.paths.facts.write_text("{")
    with pytest.raises(SandboxError, match="cannot read"):
        lifecycle.read_status(machine.paths)


@pytest.mark.parametrize("there", ["nothing", "one folder", "all folders and more", "facts", "options"])
def test_down_deletes_sandbox_in_any_state(machine, there):
    root = machine.paths.root
    root.mkdir()
    if there == "one folder":
        machine.paths.pki.mkdir()
    elif there == "all folders and more":
        prepare(machine.paths)
        (root / "backup").mkdir()
    elif there != "nothing":
        (root / "more").touch()
        {"facts": machine.paths.facts, "options": machine.paths.options}[there].touch()
    machine.down()
    assert not root.exists()


def test_down_refuses_to_delete_foreign_files(machine):
    root = machine.paths.root
    root.mkdir()
    (root / "thesis").touch()
    (root / "pki").mkdir()
    with pytest.raises(SandboxError, match="does not contain the files of a sandbox"):
        machine.down()
    assert (root / "thesis").exists()
    (root / "thesis").unlink()
    root_file = root.with_name("file")
    root_file.touch()
    with pytest.raises(SandboxError, match="does not contain the files of a sandbox"):
        lifecycle.stop_sandbox(SandboxPaths(root_file), machine.said.append)


def test_down_stops_processes_of_sandbox_with_missing_root(machine):
    environ = {**os.environ, ROOT_VARIABLE: str(machine.paths.root)}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=environ) as left:
        poll_until(lambda: find_sandbox_processes(machine.paths.root))
        machine.down()
        assert left.wait(DEADLINE) == -15


def test_nodes_command_without_sandbox_names_next_step(machine):
    prepare(machine.paths)
    done = machine.run("nodes", "--root", machine.paths.root)
    assert done.exit_code == 1
    assert "cannot read" in done.stderr
    assert "set --root to the folder of a sandbox" in done.stderr


def test_build_command_prints_source_of_binaries(machine):
    done = machine.run("build")
    assert (done.exit_code, "(from KUBEBUILDER_ASSETS)" in done.stdout) == (0, True)
