"""What the command line of the cache controller says, and what it refuses."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from support.commands import record_options

from accelkit.cachecontroller import command
from accelkit.cli import main
from accelkit.errors import ConfigurationError

NEEDED = ["--namespace", "accelkit", "--lease", "accelkit/cache", "--identity", "one", "--image", "a/b:1"]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch):
    """What the service is run with."""
    monkeypatch.setattr(command, "set_up_service_log", lambda *_: None)
    return record_options(monkeypatch, command)


def call(*arguments: str, environ: dict[str, str] | None = None):
    return CliRunner().invoke(main, ["cache-controller", *arguments], env=environ, catch_exceptions=True)


def test_options_of_command_line_are_applied(told, tmp_path):
    root = tmp_path / "root.json"
    root.write_text("{}")
    result = call(
        *NEEDED,
        "--plain-http",
        "r.test:5000",
        "--mirror",
        "q.io=m.test/q",
        "--trusted-root",
        str(root),
        "--workers",
        "7",
    )
    assert result.exit_code == 0, result.output
    options = told[0]
    assert (options.lease.namespace, options.lease.name, options.identity) == ("accelkit", "cache", "one")
    assert options.workers == 7
    assert options.again_seconds == 600
    assert options.settings.plain_http == {"r.test:5000"}
    assert options.fill.registry_arguments == ("--mirror=q.io=m.test/q", "--plain-http=r.test:5000")
    assert options.fill.trusted_root == b"{}"
    assert (options.metrics, options.webhook) == (None, None)


def test_options_are_read_from_environment(told):
    environ = {
        "ACCELKIT_NAMESPACE": "accelkit",
        "ACCELKIT_LEASE": "accelkit/cache",
        "POD_NAME": "two",
        "ACCELKIT_IMAGE": "a/b:1",
        "ACCELKIT_METRICS_PORT": "9090",
    }
    assert call(environ=environ).exit_code == 0
    assert (told[0].identity, told[0].metrics.port) == ("two", 9090)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--webhook-port", "8443"], "set --webhook-cert and --webhook-key"),
        (["--lease", "no-lease"], "is not a valid Lease name"),
        (["--mirror", "nothing"], "is not a valid mirror"),
    ],
)
def test_invalid_options_are_rejected_with_next_step(told, arguments, says):
    result = call(*NEEDED, *arguments)
    assert result.exit_code == 1
    assert says in result.output
    assert told == []


def test_invalid_webhook_certificate_is_rejected(told, tmp_path):
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text("no certificate")
    files = ["--webhook-cert", str(tmp_path / "tls.crt"), "--webhook-key", str(tmp_path / "tls.key")]
    result = call(*NEEDED, "--webhook-port", "8443", *files)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit | ConfigurationError)
    assert told == []
