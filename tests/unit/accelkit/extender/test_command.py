import asyncio
import logging
import os
import signal
import threading
import urllib.request

import pytest
from click.testing import CliRunner
from http_service import PATIENCE_SECONDS, Pki, ServedApi
from ports import free_port

from accelkit.errors import AccelkitError, ConfigurationError
from accelkit.extender.command import extender


@pytest.fixture
def kubeconfig(tmp_path):
    """The kubeconfig of an API server that runs in a thread."""
    serving, loop = threading.Event(), asyncio.new_event_loop()
    paths = []

    async def serve():
        async with ServedApi().served(tmp_path) as path:
            paths.append(path)
            serving.set()
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    serving.wait(PATIENCE_SECONDS)
    yield paths[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.fixture(autouse=True)
def log():
    """The root log, put back as it was."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    yield root
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()


def run(*arguments):
    """Run the command; an error is raised as it is."""
    return CliRunner().invoke(extender, list(map(str, arguments)), catch_exceptions=False)


def end_when_served(url, answers, over):
    """End this process's extender once it answers, as a kubelet does."""
    while not over.is_set():
        try:
            with urllib.request.urlopen(url) as answer:  # noqa: S310 - of this machine
                answers.append(answer.read())
        except OSError:
            over.wait(0.01)
        else:
            os.kill(os.getpid(), signal.SIGTERM)
            return


@pytest.mark.parametrize(
    ("dialect", "name"), [("native", "accelkit-extender"), ("gcushare", "gcushare-scheduler-extender")]
)
def test_extender_serves_until_sigterm_and_writes_its_log_file(kubeconfig, tmp_path, dialect, name):
    probes, answers, over = free_port(), [], threading.Event()
    ending = threading.Thread(target=end_when_served, args=(f"http://127.0.0.1:{probes}/readyz", answers, over))
    ending.start()
    options = ["--kubeconfig", kubeconfig, "--dialect", dialect, "--probe-port", probes, "--log-dir", tmp_path]
    try:
        result = run("--listen", f"127.0.0.1:{free_port()}", "--plain-http", *options)
    finally:
        over.set()
        ending.join()
    assert (result.exit_code, answers) == (0, [b"ok\n"])
    (log,) = tmp_path.glob("*.log")
    assert log.name == f"{name}.log"


@pytest.mark.parametrize("option", ["--tls-cert", "--tls-key", "--client-ca", "--kubeconfig"])
def test_directory_in_place_of_a_file_is_refused(tmp_path, option):
    result = run("--plain-http", option, tmp_path)
    assert result.exit_code == 2
    assert f"'{option}': File '{tmp_path}' is a directory" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "cannot serve TLS without certificates"),
        (["--plain-http"], "cannot serve plain HTTP on 0.0.0.0, which is not a loopback address"),
        (["--plain-http", "--listen", "nonsense"], "'nonsense' is not a valid listen address"),
        (["--plain-http", "--listen", "127.0.0.1:1", "--service", "s"], "--service requires --lease"),
        (["--plain-http", "--listen", "127.0.0.1:1", "--read-port", "2"], "--read-port requires TLS and a"),
        (["--plain-http", "--listen", "127.0.0.1:1", "--lease", "d/l"], "--lease requires a name for this replica"),
        (["--plain-http", "--listen", "127.0.0.1:1", "--lease", "l"], "'l' is not a valid Lease name"),
        (["--plain-http", "--listen", "127.0.0.1:1", "--unit", "0"], "'0' is not a unit of memory"),
        (["--plain-http", "--listen", "127.0.0.1:1", "--kubeconfig", "/none"], "cannot read kubeconfig /none"),
    ],
)
def test_missing_or_conflicting_options_are_errors(monkeypatch, arguments, sentence):
    for name in ("POD_NAME", "POD_IP", "KUBECONFIG", "ACCELKIT_LOG_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AccelkitError, match=sentence):
        run(*arguments)


def test_tls_requires_all_files_and_a_matching_key(tmp_path):
    pki = Pki(tmp_path)
    server = ["--tls-cert", pki.files.certificate, "--tls-key", pki.folder / "client.key"]
    with pytest.raises(ConfigurationError, match="cannot serve TLS without certificates"):
        run(*server)
    with pytest.raises(ConfigurationError, match=r"cannot use the certificate .*client\.key: "):
        run(*server, "--client-ca", pki.files.client_ca)


@pytest.mark.parametrize(
    "arguments",
    [["--policy", "x"], ["--dialect", "x"], ["--probe-port", "0"], ["--probe-port", "65536"], ["--read-port", "0"]],
)
def test_invalid_option_value_is_a_usage_error(arguments):
    assert run("--plain-http", *arguments).exit_code == 2
