"""What a container of our own image is given when it runs as a process."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from accelkit.errors import SandboxError
from accelkit.sandbox.kubelet.pods.probes import build_probe_url
from accelkit.sandbox.kubelet.pods.processes import ContainerProcess, ProcessSpec, build_process_spec, strip_tag
from accelkit.sandbox.kubelet.pods.volumes import ContainerRoot
from accelkit.sandbox.kubelet.wire import (
    Container,
    ContainerPort,
    EnvVar,
    EnvVarSource,
    FieldRef,
    HttpGet,
    Pod,
    PodMeta,
    PodSpec,
)

ROOT = ContainerRoot(Path("/sandbox/c"), ("/host/sys", "/var/log/accelkit"))
ACCOUNT = "/sandbox/c/var/run/secrets/kubernetes.io/serviceaccount"


def field(name, path):
    return EnvVar(name=name, value_from=EnvVarSource(field_ref=FieldRef(field_path=path)))


def spec_of(container, *, environ=None, plugin_environment=None):
    pod = Pod(
        metadata=PodMeta(
            name="agent-x", namespace="accelkit", uid="u-1", labels={"app": "agent"}, annotations={"a.io/b": "note"}
        ),
        spec=PodSpec(
            node_name="n1",
            service_account_name="agent",
            containers=[container],
        ),
    )
    return build_process_spec(
        pod,
        container,
        root=ROOT,
        environ=environ or {},
        plugin_environment=plugin_environment or {},
        api_environment={"KUBERNETES_SERVICE_HOST": "192.0.2.1"},
    )


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("accelkit.io/accelkit", "accelkit.io/accelkit"),
        ("accelkit.io/accelkit:1.2", "accelkit.io/accelkit"),
        ("accelkit.io/accelkit:1.2@sha256:00", "accelkit.io/accelkit"),
        ("localhost:5001/accelkit", "localhost:5001/accelkit"),
        ("localhost:5001/a/b:dev", "localhost:5001/a/b"),
        ("busybox", "busybox"),
    ],
)
def test_strip_tag_removes_tag_and_digest(image, name):
    assert strip_tag(image) == name


def test_container_command_runs_accelkit_with_current_interpreter():
    spec = spec_of(Container(name="c", command=["accelkit"], args=["node-agent", "--port", "1"]))
    assert spec.command == (sys.executable, "-m", "accelkit", "node-agent", "--port", "1")


def test_other_container_command_is_refused():
    with pytest.raises(SandboxError, match="the command of accelkit's image is accelkit"):
        spec_of(Container(name="c", command=["sh", "-c", "true"]))


def test_container_inherits_only_selected_environment_variables():
    environ = {"PATH": "/bin", "VIRTUAL_ENV": "/venv", "ACCELKIT_SANDBOX_ROOT": "/s", "SECRET": "x", "KUBECONFIG": "k"}
    spec = spec_of(Container(name="c"), environ=environ)
    assert spec.environment == {
        "PATH": "/bin",
        "VIRTUAL_ENV": "/venv",
        "ACCELKIT_SANDBOX_ROOT": "/s",
        "KUBERNETES_SERVICE_HOST": "192.0.2.1",
        "ACCELKIT_SERVICE_ACCOUNT": ACCOUNT,
    }


def test_field_references_to_pod_are_resolved():
    fields = {
        "metadata.name": "agent-x",
        "metadata.namespace": "accelkit",
        "metadata.uid": "u-1",
        "spec.nodeName": "n1",
        "status.hostIP": "127.0.0.1",
        "status.podIP": "127.0.0.1",
        "spec.serviceAccountName": "agent",
        "metadata.labels['app']": "agent",
        "metadata.annotations['a.io/b']": "note",
        "metadata.labels['none']": "",
    }
    # Each variable has the name of its field, which is no matter here.
    spec = spec_of(Container(name="c", env=[field(path, path) for path in fields]))
    assert {path: spec.environment[path] for path in fields} == fields


@pytest.mark.parametrize("variable", [field("X", "spec.unknown"), EnvVar(name="X", value_from=EnvVarSource())])
def test_unsupported_environment_source_is_refused(variable):
    with pytest.raises(SandboxError, match=r"the sandbox (supports|does not support)"):
        spec_of(Container(name="c", env=[variable]))


def test_references_to_earlier_variables_are_expanded():
    env = [
        EnvVar(name="A", value="1"),
        EnvVar(name="B", value="$(A)/$(LATER)/$$(A)/$(G)"),
        EnvVar(name="LATER", value="x"),
    ]
    spec = spec_of(
        Container(name="c", env=env, args=["--b=$(B)", "$(LATER)", "$(NONE)"]), plugin_environment={"G": "g"}
    )
    assert spec.environment["B"] == "1/$(LATER)/$(A)/g"
    assert spec.command[3:] == ("--b=1/$(LATER)/$(A)/g", "x", "$(NONE)")


def test_manifest_environment_overrides_device_plugin_environment():
    spec = spec_of(
        Container(name="c", env=[EnvVar(name="B", value="own")]), plugin_environment={"A": "card", "B": "card"}
    )
    assert (spec.environment["A"], spec.environment["B"]) == ("card", "own")


def test_paths_within_mounts_are_translated_to_host_paths():
    env = [EnvVar(name="ACCELKIT_HOST_ROOT", value="/host"), EnvVar(name="OTHER", value="/hostage")]
    args = {
        "/host": "/sandbox/c/host",
        "--root=/host/": "--root=/sandbox/c/host",
        "/host/sys/x": "/sandbox/c/host/sys/x",
        "/host/proc": "/host/proc",
        "/var/host": "/var/host",
        "--x=/hosts": "--x=/hosts",
        "--to=/var/log/accelkit": "--to=/sandbox/c/var/log/accelkit",
        "/": "/",
    }
    spec = spec_of(Container(name="c", env=env, args=list(args)))
    assert spec.environment["ACCELKIT_HOST_ROOT"] == "/sandbox/c/host"
    assert spec.environment["OTHER"] == "/hostage"
    assert spec.command[3:] == tuple(args.values())


def script(text):
    return ProcessSpec(command=(sys.executable, "-c", text), environment={"PATH": os.environ["PATH"]})


async def test_process_output_is_appended_to_log_and_exit_code_is_returned(tmp_path):
    log = tmp_path / "logs" / "c.log"
    for _ in range(2):
        process = await ContainerProcess.start(script("print('hello'); raise SystemExit(3)"), log=log)
        assert await process.wait() == 3
    assert log.read_text() == "hello\nhello\n"


async def test_command_that_cannot_start_raises_error(tmp_path, monkeypatch):
    monkeypatch.setattr("accelkit.sandbox.kubelet.pods.processes.shutil.which", lambda _name: None)
    with pytest.raises(SandboxError, match="cannot start"):
        await ContainerProcess.start(ProcessSpec(command=("/none",), environment={}), log=tmp_path / "c.log")


async def started(tmp_path, text):
    """A process that has run `text` and waits now for signals."""
    pipe = tmp_path / "ready"
    os.mkfifo(pipe)
    process = await ContainerProcess.start(
        script(f"import signal, sys; {text}; open({str(pipe)!r}, 'w').close(); signal.pause()"), log=tmp_path / "c.log"
    )
    async with asyncio.timeout(60):
        await asyncio.to_thread(pipe.read_bytes)
    return process


async def test_process_that_handles_sigterm_exits_with_its_own_code(tmp_path):
    process = await started(tmp_path, "signal.signal(15, lambda *_: sys.exit(5))")
    assert await process.stop(20.0) == 5


async def test_process_ignoring_sigterm_is_killed_after_grace_period(tmp_path):
    process = await started(tmp_path, "signal.signal(15, signal.SIG_IGN)")
    assert await process.stop(0.05) == 128 + 9


async def test_stop_of_exited_process_returns_exit_code(tmp_path):
    process = await ContainerProcess.start(script("raise SystemExit(4)"), log=tmp_path / "c.log")
    await process.wait()
    assert await process.stop(1.0) == 4


def test_probe_uses_loopback_address_unless_host_is_set():
    container = Container(name="c", ports=[ContainerPort(name="web", container_port=8080)])
    assert build_probe_url(container, HttpGet(port=1, path="/ready")) == "http://127.0.0.1:1/ready"
    assert build_probe_url(container, HttpGet(port="web", path="x", scheme="HTTPS", host="h")) == "https://h:8080/x"
    with pytest.raises(SandboxError, match="no port named other"):
        build_probe_url(container, HttpGet(port="other"))
