"""What the command lines of the agent and of its scan say, what they refuse, and the agent's port."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from ports import free_port
from support.commands import record_options

from accelkit.cacheagent import command
from accelkit.cacheagent.metrics import Metrics
from accelkit.cacheagent.scanning import command as scan_command
from accelkit.cli import main
from accelkit.errors import ConfigurationError

GIB = 1 << 30


@pytest.fixture
def told(monkeypatch):
    """What the agent is run with."""
    monkeypatch.setattr(command, "set_up_service_log", lambda *_: None)
    return record_options(monkeypatch, command)


def call(*arguments: str, environ: dict[str, str] | None = None):
    return CliRunner().invoke(main, ["cache-agent", *arguments], env=environ)


def test_command_line_options_reach_agent(told, tmp_path):
    limits = ["--max-gib", "1.5", "--min-free-gib", "0.5"]
    result = call("--node", "n", "--folder", str(tmp_path), *limits, "--plain-http", "r.test:5000")
    assert result.exit_code == 0, result.output
    (options,) = told
    assert (options.node, options.folder, options.max_bytes, options.min_free_bytes) == (
        "n",
        tmp_path,
        3 * GIB // 2,
        GIB // 2,
    )
    assert options.registries.plain_http == {"r.test:5000"}
    assert (options.scan_folder, options.metrics_port, options.min_free_percent) == (None, 0, 15)


def test_options_can_be_set_by_environment_variables(told):
    environ = {
        "NODE_NAME": "n",
        "POD_NAMESPACE": "accelkit",
        "ACCELKIT_CACHE_FOLDER": "/x",
        "ACCELKIT_CACHE_MAX_GIB": "2",
        "ACCELKIT_CACHE_MIN_FREE_PERCENT": "2.5",
        "ACCELKIT_SCAN_FOLDER": "/scan",
        "ACCELKIT_METRICS_PORT": "9090",
    }
    assert call(environ=environ).exit_code == 0
    (options,) = told
    assert (options.node, options.namespace, options.folder, options.max_bytes, options.scan_folder) == (
        "n",
        "accelkit",
        Path("/x"),
        2 * GIB,
        Path("/scan"),
    )
    assert (options.metrics_port, options.min_free_percent) == (9090, 2.5)


@pytest.mark.parametrize(
    ("node", "arguments"),
    [
        ("", []),
        ("n", ["--max-gib", "0"]),
        ("n", ["--min-free-gib", "-1"]),
        ("n", ["--min-free-percent", "101"]),
        ("n", ["--trusted-root", "/gone"]),
    ],
)
def test_invalid_options_are_rejected(told, node, arguments):
    assert call(*arguments, environ={"NODE_NAME": node}).exit_code == 2
    assert told == []


def test_scan_of_missing_folder_reports_its_path(monkeypatch):
    monkeypatch.setattr(scan_command, "set_up_service_log", lambda *_: None)
    result = CliRunner().invoke(main, ["cache-scan", "--folder", "/gone"])
    assert result.exit_code == 1
    assert "/gone is not a folder" in result.output


def test_scan_continues_without_pods_folder_and_stops_on_sigterm(tmp_path):
    arguments = ["cache-scan", "--folder", str(tmp_path), "--pods-folder", str(tmp_path / "gone")]
    process = subprocess.Popen([sys.executable, "-m", "accelkit", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert "cannot scan private copies" in process.stdout.readline()
    finally:
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0, rest
    assert list(tmp_path.iterdir()) == []


async def test_metrics_port_serves_metrics_and_health():
    metrics, healthy, port = Metrics(), [True], free_port()
    metrics.collected.inc()
    stop = asyncio.Event()
    serving = asyncio.create_task(metrics.open_port(port, lambda: healthy[0]).run(stop))

    def ask(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read().decode()

    status, text = await asyncio.to_thread(ask, "/metrics")
    assert status == 200
    assert "accelkit_kernel_cache_collected_total 1.0" in text
    assert (await asyncio.to_thread(ask, "/healthz"))[0] == 200
    healthy[0] = False
    assert (await asyncio.to_thread(ask, "/healthz"))[0] == 503
    assert (await asyncio.to_thread(ask, "/"))[0] == 404
    with pytest.raises(ConfigurationError, match="--metrics-port"):
        metrics.open_port(port, lambda: True)
    stop.set()
    await asyncio.wait_for(serving, 60)
