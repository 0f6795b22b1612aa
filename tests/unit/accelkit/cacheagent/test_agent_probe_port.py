"""Probes are answered however busy the agent is: a kubelet ends a container that is slow to say that it is well."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from ports import free_port
from support.tasks import running
from support.waiting import until

from accelkit.cacheagent.agent import AgentOptions, run
from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.cacheagent.probe_port import ProbePort
from accelkit.errors import ConfigurationError
from accelkit.kernelcache.registry import RegistrySettings


def ask(port: int) -> str:
    """What a kubelet is answered; it would wait for a second."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
        return answer.read().decode()


@pytest.fixture
def kubeconfig(tmp_path) -> Path:
    """Of an API server that is not there."""
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {
        "clusters": [cluster],
        "contexts": [context],
        "current-context": "c",
        "users": [{"name": "u", "user": {}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **document}))
    return path


async def test_probe_port_answers_while_event_loop_is_blocked():
    metrics, port = Metrics(), free_port()
    async with ProbePort(lambda: metrics.open_port(port, lambda: True)):
        # Not awaited: nothing else runs in this loop meanwhile.
        assert ask(port) == "ok\n"
    with pytest.raises(OSError, match="refused"):
        ask(port)
    metrics, port = Metrics(), free_port()
    async with ProbePort(lambda: metrics.open_port(port, lambda: True)):
        with pytest.raises(ConfigurationError, match="--metrics-port"):
            async with ProbePort(lambda: metrics.open_port(port, lambda: True)):
                pass
    async with ProbePort(None) as port:
        assert port is not None


async def test_probe_port_answers_while_store_is_opened(tmp_path, kubeconfig, monkeypatch):
    """It counts files after a reboot, and deletes what a killed agent left."""
    opening, go_on = asyncio.Event(), asyncio.Event()
    real = Store.open

    async def open_slowly(store: Store) -> None:
        opening.set()
        await go_on.wait()
        await real(store)

    monkeypatch.setattr(Store, "open", open_slowly)
    port = free_port()
    options = AgentOptions(
        node="n", folder=tmp_path / "store", registries=RegistrySettings(), kubeconfig=kubeconfig, metrics_port=port
    )
    async with running(run(options)):
        async with asyncio.timeout(30):
            await opening.wait()
        assert ask(port) == "ok\n"
        go_on.set()
        await until((tmp_path / "store" / "claims").is_dir)
        assert ask(port) == "ok\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_shutdown_signal_is_logged(tmp_path, kubeconfig, number):
    """Its exit code is 0, which says nothing."""
    arguments = ["cache-agent", "--node", "n", "--folder", str(tmp_path / "store"), "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(
        [sys.executable, "-m", "accelkit", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        # Its first word is that the API server is away.
        lines = [process.stdout.readline()]
    finally:
        process.send_signal(number)
        rest, _ = process.communicate(timeout=30)
    text = "".join([*lines, rest])
    assert process.returncode == 0, text
    assert f"shutting down: signal={number.name}" in text
