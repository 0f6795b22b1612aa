"""A whole sandbox under its supervisor, with sleeping programs in the control plane's place."""

import asyncio
import os
import signal
import stat

import msgspec
import pytest
from sandbox_programs import NAMES, write_programs
from support.programs import write_accelkit
from support.waiting import until

from accelkit.back_off import BackOff
from accelkit.errors import SandboxError
from accelkit.kube.connection import load_connection
from accelkit.sandbox import control_plane, supervisor
from accelkit.sandbox.layout import SandboxOptions, SandboxPaths, prepare
from accelkit.sandbox.processes import identify
from accelkit.sandbox.supervisor import SchedulerState, Supervisor

DEADLINE = 30
FAILS = "#!/bin/sh\necho the disk is full >&2\nexit 1\n"


class Sandbox:
    """A sandbox; `probed` are the URLs that were asked, and the authority of each."""

    def __init__(self, folder, monkeypatch, *, deaf="", **texts):
        self.paths = SandboxPaths(folder / "s")
        prepare(self.paths)
        self.probed = {}
        self.account = asyncio.Event()
        self.account.set()
        environ = write_accelkit(folder / "program", "import time; print('nodes', flush=True); time.sleep(1000)")
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        self.binaries = write_programs(folder / "bin", **texts)

        def probe_http(url, authority=None):
            async def answers():
                self.probed[url] = authority
                return not deaf or deaf not in url

            return answers

        def probe_account(_paths):
            async def exists():
                return self.account.is_set()

            return exists

        monkeypatch.setattr(control_plane, "probe_http", probe_http)
        monkeypatch.setattr(control_plane, "probe_default_account", probe_account)
        monkeypatch.setattr(supervisor, "_POLL_SECONDS", 0.01)
        monkeypatch.setattr(supervisor, "_BACK_OFF", BackOff(0.01, 0.02))
        options = SandboxOptions(extender_port=1234, apiserver_args=("--v=7",))
        self.supervisor = Supervisor(self.paths, options, self.binaries)

    def start(self):
        return asyncio.create_task(self.supervisor.run())

    async def facts(self, wanted):
        """The first facts that are as wanted."""
        return await until(self.paths.read_facts, accept=lambda facts: facts is not None and wanted(facts))

    async def ready(self):
        return await self.facts(lambda facts: facts.state == "ready" and "nodes" in facts.processes)


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    return Sandbox(tmp_path, monkeypatch)


async def stop(task):
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, DEADLINE)


async def test_sandbox_is_ready_with_all_processes_and_stops_them(sandbox):
    sandbox.paths.nodes_file.write_text("nodes: [{name: mine}]")
    task = sandbox.start()
    facts = await sandbox.ready()
    assert facts.processes.keys() == {*NAMES, "nodes"}
    assert all(identify(pid) for pid in facts.processes.values())
    assert (facts.supervisor_pid, facts.extender_port, facts.message) == (os.getpid(), 1234, "")
    assert (facts.nodes, facts.binaries, facts.kubectl) == (["mine"], "KUBEBUILDER_ASSETS", "")
    assert facts.extender_url == "http://127.0.0.1:1234"
    await stop(task)
    assert [identify(pid) for pid in facts.processes.values()] == [None] * 5


async def test_facts_contain_api_server_and_scheduler_endpoints(sandbox):
    task = sandbox.start()
    facts = await sandbox.ready()
    await stop(task)
    assert load_connection(sandbox.paths.build_kubeconfig_path("admin")).server == facts.api_server
    assert facts.nodes == ["node-1", "node-2", "node-3"]
    assert facts.kubeconfig == str(sandbox.paths.build_kubeconfig_path("admin"))
    # Only the API server's certificate is from the sandbox's own authority.
    assert sandbox.probed[f"{facts.api_server}/readyz"] == sandbox.paths.pki / "ca.crt"
    assert sandbox.probed[f"{facts.etcd}/readyz"] is None
    assert sandbox.probed[f"{facts.scheduler_url}/readyz"] is None
    assert [url for url in sandbox.probed if url.endswith("/healthz")]
    state = msgspec.json.decode(sandbox.paths.scheduler_state.read_bytes(), type=SchedulerState)
    assert (state.ready, state.restarts, state.error) == (True, 0, "")
    assert facts.scheduler_state == str(sandbox.paths.scheduler_state)
    assert facts.scheduler_config == str(sandbox.paths.scheduler_config)
    assert str(sandbox.paths.build_kubeconfig_path("kube-scheduler")) in sandbox.paths.scheduler_config.read_text()
    # Other users' programs, such as the roles under test, read the configuration.
    assert stat.S_IMODE(sandbox.paths.scheduler_config.stat().st_mode) == 0o644


def read_options(sandbox, name):
    pairs = (line.partition("=") for line in (sandbox.paths.logs / f"{name}.log").read_text().splitlines())
    return {option: value for option, _, value in pairs}


async def test_components_receive_existing_files_and_loopback_addresses(sandbox):
    task = sandbox.start()
    facts = await sandbox.ready()
    await stop(task)
    options = {name: read_options(sandbox, name) for name in NAMES}
    for name, given in options.items():
        for option, value in given.items():
            if value.startswith("/") and option != "--data-dir":
                assert os.path.isfile(value), (name, option)  # noqa: PTH113 - a text of an option
    apiserver, etcd = options["kube-apiserver"], options["etcd"]
    assert {each["--bind-address"] for name, each in options.items() if name != "etcd"} == {"127.0.0.1"}
    assert {urls for option, urls in etcd.items() if option.endswith("client-urls")} == {facts.etcd}
    assert apiserver["--etcd-servers"] == facts.etcd
    assert etcd["--initial-cluster"] == f"{etcd['--name']}={etcd['--listen-peer-urls']}"
    assert facts.api_server.endswith(":" + apiserver["--secure-port"])
    assert facts.scheduler_url.endswith(":" + options["kube-scheduler"]["--secure-port"])
    assert apiserver["--advertise-address"] == "127.0.0.1"
    # Permissions are those of a real cluster; the options of the caller come last, so they win.
    assert apiserver["--authorization-mode"] == "Node,RBAC"
    assert list(apiserver)[-1] == "--v"
    assert apiserver["--allow-privileged"] == "true"
    manager = options["kube-controller-manager"]
    assert manager["--leader-elect"] == "false"
    assert manager["--service-account-private-key-file"] == apiserver["--service-account-signing-key-file"]
    # Each controller has the permissions of its own account, so that none hides what a role lacks.
    assert "--use-service-account-credentials" in manager
    assert manager["--root-ca-file"] == apiserver["--client-ca-file"]
    # The API server's own address is the first of its services, which its certificate names.
    assert apiserver["--service-cluster-ip-range"] == "10.96.0.0/16"
    assert "--unsafe-no-fsync" in etcd


async def test_component_ports_are_distinct():
    ports = control_plane.Ports.choose_free()
    assert len({ports.etcd, ports.etcd_peer, ports.apiserver, ports.controller_manager, ports.scheduler}) == 5


async def test_sandbox_is_not_ready_before_default_service_account_exists(sandbox):
    sandbox.account.clear()
    task = sandbox.start()
    facts = await sandbox.facts(lambda facts: {"kube-scheduler", "nodes"} <= facts.processes.keys())
    await asyncio.sleep(0.1)
    assert (facts.state, sandbox.paths.read_facts().state) == ("starting", "starting")
    sandbox.account.set()
    await sandbox.ready()
    await stop(task)


@pytest.mark.parametrize("name", ["etcd", "kube-apiserver", "kube-controller-manager"])
async def test_exited_component_fails_sandbox_with_its_log_tail(sandbox, name):
    task = sandbox.start()
    before = await sandbox.ready()
    os.kill(before.processes[name], signal.SIGKILL)
    with pytest.raises(SandboxError, match=f"{name} exited:") as failure:
        await asyncio.wait_for(task, DEADLINE)
    facts = sandbox.paths.read_facts()
    assert (facts.state, facts.message) == ("failed", str(failure.value))
    assert [identify(pid) for pid in before.processes.values()] == [None] * 5


async def test_component_that_fails_to_start_is_reported_and_sandbox_is_stopped(tmp_path, monkeypatch):
    sandbox = Sandbox(tmp_path, monkeypatch, kube_apiserver=FAILS, deaf="https://")
    with pytest.raises(SandboxError, match=r"kube-apiserver exited during startup:\nthe disk is full"):
        await asyncio.wait_for(sandbox.start(), DEADLINE)
    facts = sandbox.paths.read_facts()
    assert facts.state == "failed"
    assert "the disk is full" in facts.message
    assert not (sandbox.paths.logs / "kube-scheduler.log").exists()
    assert identify(facts.processes.get("etcd", 2**22)) is None


async def test_first_of_several_failures_is_raised_unchanged(sandbox):
    sandbox.binaries.kube_scheduler.unlink()
    with pytest.raises(SandboxError, match=r"cannot start .*kube-scheduler"):
        await asyncio.wait_for(sandbox.start(), DEADLINE)


async def test_invalid_nodes_file_starts_no_process(sandbox):
    sandbox.paths.nodes_file.write_text("nodes: 3")
    with pytest.raises(SandboxError, match="nodes file"):
        await asyncio.wait_for(sandbox.start(), DEADLINE)
    assert not list(sandbox.paths.logs.iterdir())


async def test_exited_process_of_simulated_nodes_is_restarted(sandbox):
    task = sandbox.start()
    before = await sandbox.ready()
    os.kill(before.processes["nodes"], signal.SIGKILL)
    again = await sandbox.facts(lambda facts: facts.processes.get("nodes", 0) not in (0, before.processes["nodes"]))
    assert again.state == "ready"
    assert {name: again.processes[name] for name in NAMES} == {name: before.processes[name] for name in NAMES}
    await stop(task)
