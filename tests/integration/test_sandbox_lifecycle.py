"""A sandbox from its start to its end, whatever happens in between."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from ports import free_port
from support.waiting import poll_until

from accelkit.errors import SandboxError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.node.kubelet import list_pod_resources
from accelkit.sandbox import lifecycle
from accelkit.sandbox.binaries import find_cache_dir
from accelkit.sandbox.layout import ROOT_VARIABLE, SandboxOptions, SandboxPaths, prepare, write_atomically
from accelkit.sandbox.processes import find_sandbox_processes, identify

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

DEADLINE = 60
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
WHERE = os.pathsep.join((os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ["PATH"]))


def accelkit_sandbox(*arguments):
    """Runs the command as a person does; returns its exit code and all that it said."""
    command = [sys.executable, "-m", "accelkit", "sandbox", *map(str, arguments)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=4 * DEADLINE, check=False
    )
    return done.returncode, done.stdout


def accepts_connections(path):
    """Whether somebody listens; the socket's file is there a moment before."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@pytest.fixture(scope="module")
def programs():
    missing = [program for program in PROGRAMS if shutil.which(program, path=WHERE) is None]
    if missing and not any(find_cache_dir(os.environ).glob("*/kube-apiserver")):
        pytest.skip(f"no {', '.join(missing)}: set KUBEBUILDER_ASSETS to a folder with them")


@contextmanager
def long_root():
    """The root of a sandbox, of 90 characters and more, below which no unix socket could be bound by its whole path."""
    folder = Path(tempfile.mkdtemp(prefix="ak-"))
    root = folder / f"{'long-':s<90}"
    try:
        yield root
    finally:
        accelkit_sandbox("down", "--root", root)
        left = find_sandbox_processes(root)
        shutil.rmtree(folder)
        assert left == []


@pytest.fixture
def root():
    with long_root() as root:
        yield root


@pytest.fixture(scope="module")
def running(programs):
    with long_root() as root:
        code, said = accelkit_sandbox("up", "--root", root, "--extender-port", free_port())
        assert code == 0, said
        assert f"export KUBECONFIG={root}/admin.kubeconfig" in said
        assert f"accelkit sandbox down --root {root}" in said
        started = [line for line in said.splitlines() if line.startswith("starting")]
        *in_order, _ = first = [f"starting {program}" for program in PROGRAMS]
        assert started[: len(in_order)] == in_order
        # kube-scheduler and the nodes start side by side.
        assert sorted(started) == sorted([*first, "starting the simulated nodes"])
        yield SandboxPaths(root)


async def test_api_server_is_ready_and_controllers_run(running):
    facts = running.read_facts()
    async with ApiClient(load_connection(Path(facts.kubeconfig))) as api:
        assert api.server == facts.api_server
        assert await api.get("/readyz") == b"ok"
        query = {"watch": "1", "fieldSelector": "metadata.name=default"}
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        async with api.stream(accounts, query=query, silence_seconds=DEADLINE) as events:
            assert json.loads(await anext(events))["type"] == "ADDED"


async def test_nodes_serve_at_short_path_with_sockets_in_sandbox(running):
    facts = running.read_facts()
    address = "var/lib/kubelet/pod-resources/kubelet.sock"
    folders = {name: Path(facts.run_folder, str(index)) for index, name in enumerate(facts.nodes)}
    for name, folder in folders.items():
        poll_until(lambda folder=folder: folder / address, accept=accepts_connections)
        assert (running.nodes / name / address).is_socket()
        assert (await list_pod_resources(folder)).pod_resources == []
    assert len(folders) == 3


def test_second_up_keeps_running_sandbox(running):
    before = running.read_facts()
    code, said = accelkit_sandbox("up", "--root", running.root)
    assert (code, "is already running" in said) == (0, True), said
    assert running.read_facts().supervisor_pid == before.supervisor_pid


def test_status_reports_each_process(running):
    code, said = accelkit_sandbox("status", "--root", running.root, "-o", "json")
    status = json.loads(said)
    names = {process["name"] for process in status["processes"]}
    assert (code, status["running"], status["facts"]["state"]) == (0, True, "ready")
    assert names >= {"supervisor", *PROGRAMS}
    assert all(process["running"] and process["memory_mib"] > 0 for process in status["processes"])


def scheduler_state(paths):
    return json.loads(paths.scheduler_state.read_bytes())


@contextmanager
def scheduler_config(paths, content):
    """Another configuration for a while; yields how to wait for a state that follows."""
    original = paths.scheduler_config.read_bytes()
    before = poll_until(lambda: scheduler_state(paths), accept=lambda state: state["ready"])

    def follow(wanted):
        return poll_until(lambda: scheduler_state(paths), accept=wanted)

    try:
        # Whole: a scheduler that is started with half of it would be started once more.
        write_atomically(paths.scheduler_config, content(original))
        yield before, follow
    finally:
        write_atomically(paths.scheduler_config, original)
        follow(lambda state: state["ready"] and state["config_sha256"] == before["config_sha256"])


def test_a_changed_configuration_restarts_the_scheduler(running):
    with scheduler_config(running, lambda original: original + b"parallelism: 8\n") as (before, follow):
        state = follow(lambda state: state["ready"] and state["config_sha256"] != before["config_sha256"])
    assert state["restarts"] == before["restarts"] + 1
    assert (state["pid"] != before["pid"], state["error"]) == (True, "")


def test_old_scheduler_is_reported_not_ready_before_exit(running):
    held = poll_until(lambda: scheduler_state(running), accept=lambda state: state["ready"])["pid"]
    # Stopped, it cannot follow the SIGTERM, so what is said meanwhile is said of it.
    os.kill(held, signal.SIGSTOP)
    try:
        with scheduler_config(running, lambda original: original + b"parallelism: 9\n") as (_, follow):
            state = follow(lambda state: not state["ready"])
            os.kill(held, signal.SIGCONT)
            assert state["pid"] == held
    finally:
        if identify(held) is not None:
            os.kill(held, signal.SIGCONT)


def test_scheduler_recovers_after_invalid_configuration_is_reported(running):
    with scheduler_config(running, lambda _: b"kind: Nonsense\n") as (before, follow):
        state = follow(lambda state: state["error"])
        assert "Nonsense" in state["error"]
        assert not state["ready"]
        again = follow(lambda state: state["restarts"] >= before["restarts"] + 2)
        assert again["error"], "the reason stays while it is tried again"
    assert scheduler_state(running)["error"] == ""
    assert running.read_facts().state == "ready"


def test_killed_scheduler_is_restarted(running):
    before = poll_until(lambda: scheduler_state(running), accept=lambda state: state["ready"])
    os.kill(before["pid"], signal.SIGKILL)
    state = poll_until(
        lambda: scheduler_state(running), accept=lambda now: now["ready"] and now["pid"] != before["pid"]
    )
    assert state["config_sha256"] == before["config_sha256"]


def test_killed_nodes_are_restarted(running):
    def nodes():
        return running.read_facts().processes.get("nodes", 0)

    before = poll_until(nodes, accept=bool)
    os.kill(before, signal.SIGKILL)
    poll_until(nodes, accept=lambda pid: pid not in (0, before))
    assert running.read_facts().state == "ready"


@pytest.mark.extended
def test_down_stops_processes_of_killed_supervisor(programs, root):
    code, said = accelkit_sandbox("up", "--root", root, "--extender-port", free_port())
    assert code == 0, said
    facts = SandboxPaths(root).read_facts()
    os.kill(facts.supervisor_pid, signal.SIGKILL)
    assert Path(facts.run_folder).is_dir()
    code, said = accelkit_sandbox("down", "--root", root)
    assert code == 0, said
    assert find_sandbox_processes(root) == []
    assert not root.exists()
    assert not Path(facts.run_folder).exists()


@pytest.mark.extended
def test_exit_of_component_stops_all_processes(programs, root):
    code, said = accelkit_sandbox("up", "--root", root, "--extender-port", free_port())
    assert code == 0, said
    paths = SandboxPaths(root)
    os.kill(paths.read_facts().processes["etcd"], signal.SIGKILL)
    assert poll_until(lambda: find_sandbox_processes(root), accept=lambda processes: not processes) == []
    facts = paths.read_facts()
    assert not Path(facts.run_folder).exists()
    assert facts.state == "failed"
    assert facts.message.startswith("etcd exited")
    code, said = accelkit_sandbox("status", "--root", root, "-o", "json")
    assert not any(process["running"] for process in json.loads(said)["processes"])


def test_failed_start_reports_cause_and_leaves_no_process(programs, root):
    said = []
    options = SandboxOptions(extender_port=free_port(), apiserver_args=("--no-such-option",))
    paths = SandboxPaths(root)
    with pytest.raises(SandboxError, match=r"kube-apiserver exited during startup:[^$]*no-such-option") as failure:
        lifecycle.start_sandbox(paths, options, None, said.append, os.environ)
    assert "accelkit sandbox down" in failure.value.next_step
    assert said == ["starting etcd", "starting kube-apiserver", "sandbox stopped"]
    assert find_sandbox_processes(root) == []
    assert (paths.logs / "kube-apiserver.log").exists()


def test_occupied_port_is_reported_with_option(root):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = accelkit_sandbox("up", "--root", root, "--extender-port", port)
    assert (code, f"port {port}" in said, "--extender-port" in said) == (1, True, True), said
    assert not root.exists()


def test_down_without_sandbox_reports_no_sandbox(root):
    assert accelkit_sandbox("down", "--root", root) == (0, f"no sandbox exists in {root}\n")


@pytest.mark.parametrize("facts", [None, b"{"])
def test_down_removes_sandbox_without_valid_facts(root, facts):
    paths = SandboxPaths(root)
    prepare(paths)
    (root / "backup").mkdir()
    if facts is not None:
        paths.facts.write_bytes(facts)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={**os.environ, ROOT_VARIABLE: str(root)}) as left:
        lifecycle.stop_sandbox(paths, lambda _: None)
        assert left.wait(DEADLINE) == -signal.SIGTERM
    assert not root.exists()


def test_down_removes_partially_created_sandbox(root):
    (root / "pki").mkdir(parents=True)
    assert accelkit_sandbox("down", "--root", root)[0] == 0
    assert not root.exists()


def test_down_never_deletes_unrelated_folder(root):
    root.mkdir()
    (root / "thesis").touch()
    code, said = accelkit_sandbox("down", "--root", root)
    assert (code, "does not contain the files of a sandbox" in said) == (1, True)
    assert (root / "thesis").exists()


def test_down_accepts_link_to_root(root):
    paths = SandboxPaths(root)
    prepare(paths)
    link = root.with_name("link")
    link.symlink_to(root)
    assert accelkit_sandbox("down", "--root", link)[0] == 0
    assert not root.exists()
